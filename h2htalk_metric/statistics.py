"""How sure a figure is: seeded bootstrap intervals, paired tests between two runs, Holm's correction.

Everything works on stored per-item values; no text is scored again. A figure is a linear function of the eleven config
means (a config itself, a dimension's average, Overall), so resampled config means are enough for every cell.
"""

__all__ = ["CELLS", "Interval", "PairedTest", "bootstrap", "compare", "holm", "resampled"]

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.tasks import DIMENSIONS, TASKS
from h2htalk_metric.aggregate import AVERAGES, OVERALL

Items = Mapping[str, Sequence[float]] | Mapping[str, np.ndarray]

CELLS: tuple[str, ...] = (*TASKS, *AVERAGES, OVERALL)
"""The cells of a row of Table 2: eleven configs, three averages, Overall."""

_CHUNK = 256  # resamples made at a time, so that memory stays small


class Interval(NamedTuple):
    """A figure with its 95% percentile interval, on the scale of the items."""

    value: float
    low: float
    high: float


class PairedTest(NamedTuple):
    """The difference first minus second of a cell.

    Attributes:
        difference: of the two means.
        low: lower end of its 95% paired bootstrap interval.
        high: upper end.
        p: two-sided p-value of approximate randomization (random swaps within pairs).
        p_holm: p after Holm's correction over the configs; for averages and Overall the same as `p`.

    """

    difference: float
    low: float
    high: float
    p: float
    p_holm: float


def bootstrap(items: Items, *, resamples: int = 10_000, seed: int = 0) -> dict[str, Interval]:
    """Bootstrap intervals of every cell, items drawn with replacement within each config.

    Args:
        items: config name to its items' values; configs may be missing, then so are the cells that need them.
        resamples: number of resamples.
        seed: of the draw.

    """
    values = {task: np.asarray(items[task], dtype=float) for task in TASKS if task in items}
    draws = np.stack([_resampled_means(v, resamples, _stream(seed, t)) for t, v in values.items()], axis=1)
    means = np.array([[v.mean() for v in values.values()]])
    return {
        cell: Interval(float(point[0]), *map(float, np.percentile(drawn, [2.5, 97.5])))
        for cell, point, drawn in _cells(list(values), means, draws)
    }


def resampled(items: Items, *, resamples: int = 10_000, seed: int = 0) -> dict[str, np.ndarray]:
    """The values that :func:`bootstrap` takes its percentiles of: every cell over the resamples, shape (resamples,).

    One seed draws the same items from every run over the same records. So the difference of two runs' values is the
    paired bootstrap of :func:`compare`, and runs can be compared later without their items.
    """
    values = {task: np.asarray(items[task], dtype=float) for task in TASKS if task in items}
    draws = np.stack([_resampled_means(v, resamples, _stream(seed, t)) for t, v in values.items()], axis=1)
    means = np.array([[v.mean() for v in values.values()]])
    return {cell: drawn for cell, _, drawn in _cells(list(values), means, draws)}


def compare(
    first: Items,
    second: Items,
    *,
    resamples: int = 10_000,
    seed: int = 0,
) -> dict[str, PairedTest]:
    """Test every cell of two runs over the same items (Noreen 1989; Koehn 2004).

    Args:
        first: config name to its items' values.
        second: the same configs, the same items in the same order.
        resamples: of the bootstrap, and random swaps of the randomization test.
        seed: of both.

    Raises:
        H2HTalkError: configs or numbers of items differ.

    """
    _same_items(first, second)
    gaps = {
        task: np.asarray(first[task], dtype=float) - np.asarray(second[task], dtype=float)
        for task in TASKS
        if task in first
    }
    drawn = np.stack([_resampled_means(gap, resamples, _stream(seed, task)) for task, gap in gaps.items()], axis=1)
    swapped = np.stack([_swapped_means(gap, resamples, _stream(seed + 1, task)) for task, gap in gaps.items()], axis=1)
    means = np.array([[gap.mean() for gap in gaps.values()]])
    tests = {}
    for (cell, point, sample), (_, _, null) in zip(
        _cells(list(gaps), means, drawn), _cells(list(gaps), means, swapped), strict=True
    ):
        # A hair of room, since sums in another order differ in the last bits.
        extreme = np.abs(null) >= abs(point[0]) - 1e-12
        p = (1 + int(extreme.sum())) / (1 + resamples)
        low, high = map(float, np.percentile(sample, [2.5, 97.5]))
        tests[cell] = PairedTest(float(point[0]), low, high, p, p)
    corrected = holm([tests[task].p for task in gaps])
    return tests | {task: tests[task]._replace(p_holm=p) for task, p in zip(gaps, corrected, strict=True)}


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction (Holm 1979): adjusted p-values in the given order."""
    order = np.argsort(p_values, kind="stable")
    scaled = np.array(p_values, dtype=float)[order] * np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return adjusted.tolist()


def _same_items(first: Items, second: Items) -> None:
    if set(first) != set(second):
        only = ", ".join(sorted(set(first) ^ set(second)))
        raise H2HTalkError(f"the runs hold different configs; only one of them has: {only}")
    for task in first:
        if len(first[task]) != len(second[task]):
            raise H2HTalkError(f"{task}: {len(first[task])} items against {len(second[task])}; compare equal items")


def _stream(seed: int, task: str) -> np.random.Generator:
    """One stream a config, so that a cell's interval does not depend on which other configs are there."""
    return np.random.default_rng([seed, list(TASKS).index(task)])


def _resampled_means(values: np.ndarray, resamples: int, random: np.random.Generator) -> np.ndarray:
    means = np.empty(resamples)
    for start in range(0, resamples, _CHUNK):
        stop = min(start + _CHUNK, resamples)
        picks = random.integers(len(values), size=(stop - start, len(values)), dtype=np.uint16)
        means[start:stop] = values[picks].mean(axis=1)
    return means


def _swapped_means(gaps: np.ndarray, resamples: int, random: np.random.Generator) -> np.ndarray:
    means = np.empty(resamples)
    for start in range(0, resamples, _CHUNK):
        stop = min(start + _CHUNK, resamples)
        signs = random.integers(2, size=(stop - start, len(gaps)), dtype=np.int8) * 2 - 1
        means[start:stop] = signs @ gaps / len(gaps)
    return means


def _cells(tasks: list[str], means: np.ndarray, draws: np.ndarray) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Every cell that the given configs allow: its name, its mean of shape (1,), its draws of shape (resamples,)."""
    weights = {task: np.eye(len(tasks))[place] for place, task in enumerate(tasks)}
    for dimension, average in zip(DIMENSIONS, AVERAGES, strict=True):
        names = [task.name for task in TASKS.values() if task.dimension == dimension]
        if set(names) <= set(tasks):
            weights[average] = np.array([task in names for task in tasks]) / len(names)
    if len(tasks) == len(TASKS):
        counts = np.array([TASKS[task].count for task in tasks], dtype=float)
        weights[OVERALL] = counts / counts.sum()
    return [(cell, means @ weights[cell], draws @ weights[cell]) for cell in CELLS if cell in weights]
