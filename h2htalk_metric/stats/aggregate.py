"""From config scores to a row of Table 2.

A config's score is the mean of its items, a dimension's average the plain mean of its configs, and Overall the mean
of the eleven weighted by Table 1's counts. Checked against the paper: this reproduces all 35 legible rows of Table 2,
the averages within 0.011 and Overall within 0.15.
"""

__all__ = ["AVERAGES", "CELLS", "OVERALL", "aggregate", "cell_weights"]

from collections.abc import Mapping, Sequence

import numpy as np

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.tasks import DIMENSIONS, TASKS

AVERAGES = tuple(f"{dimension}Avg" for dimension in DIMENSIONS)
OVERALL = "Overall"
CELLS: tuple[str, ...] = (*TASKS, *AVERAGES, OVERALL)
"""The cells of a row of Table 2: eleven configs, three averages, Overall."""


def aggregate(scores: Mapping[str, float]) -> dict[str, float | None]:
    """Extend config scores to a row of Table 2.

    Args:
        scores: config name to score, on any scale; configs may be missing.

    Returns:
        The eleven configs in the table's order, then the three averages and Overall. A missing config, and every
        average that would need it, is None.

    Raises:
        H2HTalkError: a name is not one of the eleven.

    """
    for name in scores:
        if name not in TASKS:
            raise H2HTalkError(f"unknown task {name!r}; the tasks are: {', '.join(TASKS)}")
    tasks = [name for name in TASKS if name in scores]
    values = np.array([scores[name] for name in tasks], dtype=float)
    cells = cell_weights(tasks)
    return {cell: float(values @ cells[cell]) if cell in cells else None for cell in CELLS}


def cell_weights(tasks: Sequence[str]) -> dict[str, np.ndarray]:
    """Weights of the config means in every cell that these configs allow.

    Args:
        tasks: config names, in any order.

    Returns:
        Cell name to weights of shape (len(tasks),), in the table's order.

    """
    names = list(tasks)
    weights = {task: np.eye(len(names))[place] for place, task in enumerate(names)}
    for dimension, average in zip(DIMENSIONS, AVERAGES, strict=True):
        members = [task.name for task in TASKS.values() if task.dimension == dimension]
        if set(members) <= set(names):
            weights[average] = np.array([name in members for name in names]) / len(members)
    if set(TASKS) <= set(names):
        counts = np.array([TASKS[name].count for name in names], dtype=float)
        weights[OVERALL] = counts / counts.sum()
    return {cell: weights[cell] for cell in CELLS if cell in weights}
