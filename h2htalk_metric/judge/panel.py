"""Who judges a run, and how: ``RUN/judge.json``."""

__all__ = ["Panel", "judge_names"]

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import write_atomically
from h2htalk_metric.judge.blend import ALPHA, TAU, blend, flagged, lowest
from h2htalk_metric.judge.scale import PAPER, Scale


@dataclass(frozen=True)
class Panel:
    """The judges of a run and their settings; part of the signature of a judged result.

    Attributes:
        judges: model names.
        num_explanations: explanations per position before scores; 0: scores first, then one explanation.
        seed: of the first call.
        alpha: weight of the composite in J (Eq. 3), 0..1.
        tau: an item with a lower J is for people to review (Eq. 4), 0..5.
        tau_share: instead of tau: the share of the items with the lowest J that is for people, above 0 to 1.
        scale: how S enters J.
        server: base URL of the judges' server without secrets; None is OpenAI's own.
        default_temperature: judges whose server refuses temperature 0, so that they have the model's default.

    """

    judges: tuple[str, ...]
    num_explanations: int = 0
    seed: int = 0
    alpha: float = ALPHA
    tau: float = TAU
    server: str | None = None
    default_temperature: tuple[str, ...] = ()
    tau_share: float | None = None
    scale: Scale = PAPER

    def same_judging(self, other: "Panel") -> bool:
        """Whether both give the same scores; alpha, tau and scale only say what is made of them."""
        mine = replace(self, alpha=other.alpha, tau=other.tau, tau_share=other.tau_share, scale=other.scale)
        return mine == other

    def j(self, task: str, composite: float, judge_score: float) -> float:
        """J of an answer to a config (Eq. 3), see :func:`h2htalk_metric.judge.blend.blend`."""
        return blend(self.scale.scaled(task, composite), judge_score, self.alpha)

    def flags(self, j: np.ndarray) -> np.ndarray:
        """Which items are for people (Eq. 4), bool of shape (items,); items whose J is NaN are not.

        Args:
            j: of all items, 0..5.

        """
        present = j[~np.isnan(j)]
        if self.tau_share is not None and len(present):
            return j <= lowest(present, self.tau_share)
        return flagged(j, self.tau)

    @classmethod
    def read(cls, folder: Path) -> "Panel | None":
        """Read the panel of a run folder; None if nobody judged it.

        Raises:
            H2HTalkError: ``judge.json`` is damaged.

        """
        file = folder / "judge.json"
        if not file.exists():
            return None
        try:
            content = _upgrade_panel(json.loads(file.read_text("utf-8")))
            names = ("judges", "default_temperature")
            names_and_scale = {name: tuple(content.get(name, ())) for name in names} | {
                "scale": Scale(**content.get("scale", {}))
            }
            return cls(**content | names_and_scale)
        except (ValueError, TypeError, KeyError):
            raise H2HTalkError(f"{file} is damaged; run the same `h2htalk judge` command again") from None

    def write(self, folder: Path) -> None:
        """Write it into the run folder."""
        write_atomically(folder / "judge.json", json.dumps(asdict(self), indent=1) + "\n")


def judge_names(option: str) -> tuple[str, ...]:
    """Model names of ``--judge``, separated by commas, each once; empty if there are none."""
    return tuple(dict.fromkeys(name.strip() for name in option.split(",") if name.strip()))


def _upgrade_panel(content: dict[str, Any]) -> dict[str, Any]:
    """Rename the key of earlier versions."""
    return {("num_explanations" if key == "evidence" else key): value for key, value in content.items()}
