"""How a judge's score joins the composite (Eq. 3), and which items people should review (Eq. 4)."""

__all__ = ["ALPHA", "TAU", "blend", "flagged", "lowest"]

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from h2htalk_datasets.errors import H2HTalkError

ALPHA = 0.6
"""Weight of the composite in J (paper, Eq. 3)."""

TAU = 3.5
"""People review an item with a lower J, 0..5 (paper, Eq. 4)."""


def blend(composite: float, judge_score: float, alpha: float = ALPHA) -> float:
    """J = alpha * S5 + (1 - alpha) * J_judge, with S5 = 5 * S (paper, Eq. 3); 0..5.

    Args:
        composite: S of the item, 0..1.
        judge_score: J_judge, the mean over the rubric's criteria, or a person's score in its place; 0..5.
        alpha: weight of the composite, 0..1.

    Raises:
        H2HTalkError: a value is out of its range.

    """
    for name, value, highest in (("S", composite, 1), ("J_judge", judge_score, 5), ("alpha", alpha, 1)):
        if not 0 <= value <= highest:
            raise H2HTalkError(f"{name} is {value}; it must be in 0..{highest}")
    return alpha * 5 * composite + (1 - alpha) * judge_score


def flagged(j: np.ndarray | float, tau: float = TAU) -> Any:
    """Whether people should review an item: J < tau (paper, Eq. 4); bool, elementwise for an array."""
    return j < tau


def lowest(j: Sequence[float] | np.ndarray, share: float) -> float:
    """The highest J of the lowest share of the items.

    Args:
        j: of all items, 0..5, shape (items,); at least one.
        share: above 0, at most 1.

    """
    return float(np.sort(j)[math.ceil(share * len(j) - 1e-9) - 1])
