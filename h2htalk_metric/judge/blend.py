"""How a judge's marks join the composite (Eq. 3), and which items people should look at (Eq. 4)."""

__all__ = ["ALPHA", "TAU", "blend", "flagged"]

from h2htalk_datasets.errors import H2HTalkError

ALPHA = 0.6
"""Weight of the composite in J (paper, Eq. 3)."""

TAU = 3.5
"""Below this J, 0 to 5, an item is for people to review (paper, Eq. 4)."""


def blend(composite: float, judge: float, alpha: float = ALPHA) -> float:
    """J = alpha * S5 + (1 - alpha) * J_judge, with S5 = 5 * S (Eq. 3); 0..5.

    Args:
        composite: S of the item, 0..1.
        judge: J_judge, the mean of the rubric's criteria, or a person's score in its place; 0..5.
        alpha: weight of the composite, 0..1.

    Raises:
        H2HTalkError: a value is out of its range.

    """
    for name, value, most in (("S", composite, 1), ("J_judge", judge, 5), ("alpha", alpha, 1)):
        if not 0 <= value <= most:
            raise H2HTalkError(f"{name} is {value}; it must lie in 0 to {most}")
    return alpha * 5 * composite + (1 - alpha) * judge


def flagged(j: float, tau: float = TAU) -> bool:
    """Whether people should look at an item: J < tau (Eq. 4)."""
    return j < tau
