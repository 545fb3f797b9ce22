"""The options of ``h2htalk remember``, each declared once."""

__all__ = ["Remembering"]

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Option


@dataclass(frozen=True)
class Remembering:
    """A memory strategy and its options; each field is an option of ``h2htalk remember``."""

    memory: Annotated[
        str,
        Option(help="none, window, full, notes, retrieval, MODULE:CLASS, FILE.py:CLASS, or http://... of a server."),
    ]
    length: Annotated[str, Option(help="Tokens of each history: arc (as written, about 4k), 2k, 8k or 32k.")] = "arc"
    arcs: Annotated[int | None, Option(min=1, help="Relationships, from the first. Default: all 50.")] = None
    window_tokens: Annotated[int, Option(min=1, help="Tokens that 'window' shows.")] = 1000
    top_k: Annotated[int, Option(min=1, help="Pairs of turns that 'retrieval' shows.")] = 8
    embedder: Annotated[str, Option(help="Embedder of 'retrieval', as for h2htalk score.")] = "BAAI/bge-m3"

    def recorded(self) -> dict[str, Any]:
        """Everything that changes the contexts: the options of other strategies are left out."""
        used = {"window": ("window_tokens",), "retrieval": ("top_k", "embedder")}.get(self.memory, ())
        return {key: value for key, value in asdict(self).items() if key in ("memory", "length", "arcs", *used)}

    def folder(self, out: Path) -> Path:
        """Where the answers are, in a run folder."""
        slug = re.sub(r"[^A-Za-z0-9]+", "-", self.memory).strip("-")
        return out / "probes" / "memory" / self.length / slug
