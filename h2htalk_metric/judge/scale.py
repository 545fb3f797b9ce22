"""How S enters J: as it is (the paper), or as a part of the reference ceiling of its config."""

__all__ = ["PAPER", "SCALES", "Scale"]

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

ScaleName = Literal["paper", "ceiling"]
SCALES: tuple[ScaleName, ...] = get_args(ScaleName)


@dataclass(frozen=True)
class Scale:
    """A scale of S in Eq. 3.

    Attributes:
        name: ``paper`` or ``ceiling``.
        ceilings: mean S of a competent independent writer by config, 0..1; empty for ``paper``.
        embedder: that the ceilings were measured with; None for ``paper``.

    """

    name: ScaleName = "paper"
    ceilings: Mapping[str, float] = field(default_factory=dict)
    embedder: str | None = None

    def scaled(self, task: str, composite: float) -> float:
        """S of an answer to a config, as it enters Eq. 3; 0..1."""
        return composite if self.name == "paper" else min(1.0, composite / self.ceilings[task])

    def scaled_limit(self, task: str, scaled: float) -> float:
        """The S that :meth:`scaled` maps to this value; 0..1."""
        return scaled if self.name == "paper" else scaled * self.ceilings[task]


PAPER = Scale()
