"""The protocol: two raters per item, a third if they disagree, and the score that an item has then.

Rubrics may have other levels than 0..5; every mark is first put on 0..5 (lowest level 0, highest 5, evenly between).
Two raters disagree if their marks for one criterion differ by 2 or more, or their means by more than 1. Then the item
waits for a third. An item is resolved with two raters who agree, or with three. Its score is the mean over criteria of
the raters' median mark: for two raters that is the mean of their means, and for three the middle mark decides on every
criterion, so one outlier has no effect. Until it is resolved, an item has no score.
"""

__all__ = ["Marks", "disagree", "is_open_for", "item_score", "mean_mark", "on_scale", "order", "resolved"]

import random
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median

from h2htalk_metric.judge.rubric import Rubric

Marks = Mapping[str, float]
"""Criterion to level; those of a judge may be means of levels."""

_RATERS = 2
_CRITERION_DIFFERENCE = 2.0
_MEAN_DIFFERENCE = 1.0
_TOLERANCE = 1e-9  # sums of fifths differ in the last bits


def on_scale(rubric: Rubric, marks: Marks) -> dict[str, float]:
    """Put marks on 0..5."""
    ends = {criterion.name: (min(criterion.levels), max(criterion.levels)) for criterion in rubric.criteria}
    return {name: 5 * (marks[name] - low) / (high - low) for name, (low, high) in ends.items()}


def mean_mark(rubric: Rubric, marks: Marks) -> float:
    """One rater's mean, 0..5."""
    return fmean(on_scale(rubric, marks).values())


def disagree(rubric: Rubric, first: Marks, second: Marks) -> bool:
    """Whether two raters' marks of an item differ so much that a third must mark it."""
    one, other = on_scale(rubric, first), on_scale(rubric, second)
    if any(abs(one[name] - other[name]) >= _CRITERION_DIFFERENCE - _TOLERANCE for name in one):
        return True
    return abs(fmean(one.values()) - fmean(other.values())) > _MEAN_DIFFERENCE + _TOLERANCE


def resolved(rubric: Rubric, marks: Sequence[Marks]) -> bool:
    """Whether an item needs no other rater; `marks` has one entry per rater."""
    return len(marks) > _RATERS or (len(marks) == _RATERS and not disagree(rubric, *marks))


def item_score(rubric: Rubric, marks: Sequence[Marks]) -> float | None:
    """An item's score from the marks of all raters, 0..5; None until it is resolved."""
    if not resolved(rubric, marks):
        return None
    scaled = [on_scale(rubric, one) for one in marks]
    return fmean(median(one[name] for one in scaled) for name in scaled[0])


def is_open_for(rubric: Rubric, by_rater: Mapping[str, Marks], rater: str) -> bool:
    """Whether a rater sees this item: because they marked it, or because it needs another rater."""
    return rater in by_rater or not resolved(rubric, list(by_rater.values()))


def order(ids: Iterable[str], seed: int, rater: str) -> list[str]:
    """The order in which a rater sees the items: shuffled, different for each rater, always the same."""
    shuffled = sorted(ids)
    random.Random(f"{seed} {rater}").shuffle(shuffled)
    return shuffled
