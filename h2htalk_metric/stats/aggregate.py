"""From config scores to a row of Table 2.

A config's score is the mean of its items, a dimension's average the plain mean of its configs, and Overall the mean
of the eleven weighted by Table 1's counts. Checked against the paper: this reproduces all 35 legible rows of Table 2,
the averages within 0.011 and Overall within 0.15.
"""

__all__ = ["AVERAGES", "OVERALL", "aggregate"]

from collections.abc import Mapping

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.tasks import DIMENSIONS, TASKS

AVERAGES = tuple(f"{dimension}Avg" for dimension in DIMENSIONS)
OVERALL = "Overall"


def aggregate(scores: Mapping[str, float]) -> dict[str, float | None]:
    """Extend config scores to a whole row of Table 2.

    Args:
        scores: config name to score, on any scale; configs may be missing.

    Returns:
        The eleven configs in the table's order, then the three averages and Overall. A config that is missing, and
        every figure that would need it, is None.

    Raises:
        H2HTalkError: a name is not one of the eleven.

    """
    for name in scores:
        if name not in TASKS:
            raise H2HTalkError(f"unknown task {name!r}; the tasks are: {', '.join(TASKS)}")
    row: dict[str, float | None] = {name: scores.get(name) for name in TASKS}
    for dimension, average in zip(DIMENSIONS, AVERAGES, strict=True):
        names = [task.name for task in TASKS.values() if task.dimension == dimension]
        row[average] = _mean([(scores.get(name), 1) for name in names])
    row[OVERALL] = _mean([(scores.get(task.name), task.count) for task in TASKS.values()])
    return row


def _mean(weighted: list[tuple[float | None, int]]) -> float | None:
    known = [(value, weight) for value, weight in weighted if value is not None]
    if len(known) < len(weighted):
        return None
    return sum(value * weight for value, weight in known) / sum(weight for _, weight in known)
