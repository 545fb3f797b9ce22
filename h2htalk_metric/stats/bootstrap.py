"""How sure a figure is: seeded bootstrap intervals, paired tests, Holm's correction, Krippendorff's alpha.

Everything works on stored per-item values; no text is scored again.

**Table 2.** A figure is a linear function of the eleven config means (a config itself, a dimension's average, Overall),
so resampled config means are enough for every cell.

**Clusters.** Interactions of one scenario share people, danger and history, so they are no independent draws: whole
scenarios are drawn in the bootstrap, and whole scenarios swap sides in the randomization test. A mean is always over
items, so that larger clusters weigh more, as they do in the figure itself.

One item, or one cluster, can't show how much another would differ: such an interval is undefined, its ends are NaN.
"""

__all__ = [
    "CELLS",
    "Interval",
    "PairedDifference",
    "PairedTest",
    "as_json",
    "bootstrap",
    "clustered_interval",
    "clustered_test",
    "compare",
    "holm",
    "intervals",
    "krippendorff_alpha",
    "resampled",
]

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.tasks import DIMENSIONS, TASKS
from h2htalk_metric.stats.aggregate import AVERAGES, OVERALL

Values = Sequence[float] | np.ndarray
Items = Mapping[str, Sequence[float]] | Mapping[str, np.ndarray]

CELLS: tuple[str, ...] = (*TASKS, *AVERAGES, OVERALL)
"""The cells of a row of Table 2: eleven configs, three averages, Overall."""

_CHUNK = 256  # resamples made at a time, so that memory stays small


class Interval(NamedTuple):
    """A figure with its 95% percentile interval, on the scale of the items; both ends NaN where it is undefined."""

    value: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return not math.isnan(self.low)


class PairedTest(NamedTuple):
    """The difference first minus second of a cell.

    Attributes:
        difference: of the two means.
        low: lower end of its 95% paired bootstrap interval, NaN where that is undefined.
        high: upper end, likewise.
        p: two-sided p-value of approximate randomization (random swaps within pairs).
        p_holm: p after Holm's correction over the configs; for averages and Overall the same as `p`.

    """

    difference: float
    low: float
    high: float
    p: float
    p_holm: float


class PairedDifference(NamedTuple):
    """First less second over the items that both have.

    Attributes:
        items: how many.
        clusters: how many they are of.
        difference: of the means.
        low: lower end of its 95% interval, clusters drawn with replacement; NaN where that is undefined.
        high: upper end, likewise.
        p: two-sided p-value, clusters swapped at random; exact where there are few.

    """

    items: int
    clusters: int
    difference: float
    low: float
    high: float
    p: float


def bootstrap(items: Items, *, resamples: int = 10_000, seed: int = 0) -> dict[str, Interval]:
    """Bootstrap intervals of every cell, items drawn with replacement within each config.

    The interval of a cell that holds a config of one item is undefined.

    Args:
        items: config name to its items' values; configs may be missing, then so are the cells that need them.
        resamples: number of resamples.
        seed: of the draw.

    """
    return intervals(items, resampled(items, resamples=resamples, seed=seed))


def intervals(items: Items, draws: Mapping[str, np.ndarray]) -> dict[str, Interval]:
    """What :func:`bootstrap` makes of the values of :func:`resampled`: every cell's mean, and its 95% interval.

    The interval of a cell that holds a config of one item is undefined.

    Args:
        items: config name to its items' values, on any scale; the intervals are on the same.
        draws: of the same items, by cell, each of shape (resamples,).

    """
    tasks = [task for task in TASKS if task in items]
    means = np.array([np.mean(items[task]) for task in tasks])
    return {
        cell: Interval(float(means @ weights), *_ends(draws[cell], _fewest(items, tasks, weights)))
        for cell, weights in _cells(tasks).items()
    }


def resampled(items: Items, *, resamples: int = 10_000, seed: int = 0) -> dict[str, np.ndarray]:
    """The values that :func:`bootstrap` takes its percentiles of: every cell over the resamples, shape (resamples,).

    One seed draws the same items from every run over the same records. So the difference of two runs' values is the
    paired bootstrap of :func:`compare`, and runs can be compared later without their items.
    """
    values = {task: np.asarray(items[task], dtype=float) for task in TASKS if task in items}
    draws = np.stack([_resampled_means(v, resamples, _stream(seed, t)) for t, v in values.items()], axis=1)
    return {cell: draws @ weights for cell, weights in _cells(list(values)).items()}


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
        H2HTalkError: configs or numbers of items differ, or an item has no value.

    """
    _same_items(first, second)
    gaps = {
        task: np.asarray(first[task], dtype=float) - np.asarray(second[task], dtype=float)
        for task in TASKS
        if task in first
    }
    drawn = np.stack([_resampled_means(gap, resamples, _stream(seed, task)) for task, gap in gaps.items()], axis=1)
    swapped = np.stack([_swapped_means(gap, resamples, _stream(seed + 1, task)) for task, gap in gaps.items()], axis=1)
    means = np.array([gap.mean() for gap in gaps.values()])
    tests = {}
    for cell, weights in _cells(list(gaps)).items():
        difference = float(means @ weights)
        # A hair of room, since sums in another order differ in the last bits.
        extreme = np.abs(swapped @ weights) >= abs(difference) - 1e-12
        p = (1 + int(extreme.sum())) / (1 + resamples)
        ends = _ends(drawn @ weights, _fewest(gaps, list(gaps), weights))
        tests[cell] = PairedTest(difference, *ends, p, p)
    corrected = holm([tests[task].p for task in gaps])
    return tests | {task: tests[task]._replace(p_holm=p) for task, p in zip(gaps, corrected, strict=True)}


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction (Holm 1979): adjusted p-values in the given order."""
    order = np.argsort(p_values, kind="stable")
    scaled = np.array(p_values, dtype=float)[order] * np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return adjusted.tolist()


def clustered_interval(
    values: Values, clusters: Sequence[str], *, rate: bool = False, resamples: int = 10_000, seed: int = 0
) -> Interval | None:
    """The mean with its 95% interval; of items that are independent draws, each is a cluster of its own.

    Args:
        values: of the items; NaN where one has none, which is left out.
        clusters: the items' clusters, of the same length.
        rate: whether values are shares. Where all are 0 or all are 1 no resample can differ, so the interval is that
            of Clopper and Pearson with clusters as trials: what may be true of scenarios that were not seen.
        resamples: of the percentile bootstrap.
        seed: of the draw.

    Returns:
        None where no item has a value.

    """
    sums, sizes = _by_cluster(np.asarray(values, dtype=float), clusters)
    if not len(sums):
        return None
    mean = float(sums.sum() / sizes.sum())
    if rate and mean in (0.0, 1.0):
        from scipy.stats import binomtest

        ends = binomtest(round(mean * len(sums)), len(sums)).proportion_ci()
        return Interval(mean, float(ends.low), float(ends.high))
    draws = _resampled_means(sums, resamples, np.random.default_rng(seed), sizes)
    return Interval(mean, *_ends(draws, len(sums)))


def clustered_test(
    first: Values, second: Values, clusters: Sequence[str], *, resamples: int = 10_000, seed: int = 0
) -> PairedDifference | None:
    """Test two treatments of the same items.

    With k clusters of which 2^k is at most `resamples`, all swaps are gone through and p is exact; else p is
    (1 + extreme swaps) / (1 + resamples).

    Args:
        first: values of the items; NaN where one has none.
        second: of the same items in the same order.
        clusters: the items' clusters.
        resamples: random swaps, and resamples of the interval.
        seed: of both.

    Returns:
        None where no item has both values.

    """
    gaps = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    interval = clustered_interval(gaps, clusters, resamples=resamples, seed=seed)
    if interval is None:
        return None
    sums, sizes = _by_cluster(gaps, clusters)
    exact = 2 ** len(sums) <= resamples
    if exact:
        signs = np.array(list(product((1, -1), repeat=len(sums))))
    else:
        signs = np.random.default_rng([seed, 1]).integers(2, size=(resamples, len(sums))) * 2 - 1
    # A hair of room, since sums in another order differ in the last bits.
    extreme = int((np.abs(signs @ sums) >= abs(sums.sum()) - 1e-9).sum())
    p = extreme / len(signs) if exact else (1 + extreme) / (1 + resamples)
    return PairedDifference(int(sizes.sum()), len(sums), *interval, p)


def krippendorff_alpha(
    ratings: Sequence[Sequence[float]] | np.ndarray, level: Literal["ordinal", "interval"] = "interval"
) -> float | None:
    """Krippendorff's alpha, the agreement of raters.

    Args:
        ratings: shape (raters, items), NaN where a rater has none.
        level: of measurement.

    Returns:
        1 for full agreement, 0 for chance; None where it is undefined: fewer than two raters, items or values.

    """
    import krippendorff

    values = np.asarray(ratings, dtype=float)
    paired = values[:, (~np.isnan(values)).sum(axis=0) > 1]
    if paired.shape[1] < 2 or len(np.unique(paired[~np.isnan(paired)])) < 2:
        return None
    return float(krippendorff.alpha(reliability_data=paired, level_of_measurement=level))


def as_json(figure: Interval | PairedDifference) -> dict[str, Any]:
    """A figure by its fields; what is undefined is None, since JSON has no NaN."""
    return {key: None if math.isnan(value) else value for key, value in figure._asdict().items()}


def _same_items(first: Items, second: Items) -> None:
    if set(first) != set(second):
        only = ", ".join(sorted(set(first) ^ set(second)))
        raise H2HTalkError(f"the runs hold different configs; only one of them has: {only}")
    for task in first:
        if len(first[task]) != len(second[task]):
            raise H2HTalkError(f"{task}: {len(first[task])} items against {len(second[task])}; compare equal items")
        if np.isnan(first[task]).any() or np.isnan(second[task]).any():
            raise H2HTalkError(f"{task}: an item has no value (NaN), so the configs' means are undefined")


def _stream(seed: int, task: str) -> np.random.Generator:
    """One stream a config, so that a cell's interval does not depend on which other configs are there."""
    return np.random.default_rng([seed, list(TASKS).index(task)])


def _resampled_means(
    sums: np.ndarray, resamples: int, random: np.random.Generator, sizes: np.ndarray | None = None
) -> np.ndarray:
    """Means of resamples, shape (resamples,); `sums` are of clusters of these `sizes`, or single items."""
    means = np.empty(resamples)
    places = np.uint16 if len(sums) <= 2**16 else np.uint32  # each draws numbers of its own
    for start in range(0, resamples, _CHUNK):
        stop = min(start + _CHUNK, resamples)
        picks = random.integers(len(sums), size=(stop - start, len(sums)), dtype=places)
        means[start:stop] = sums[picks].sum(axis=1) / (len(sums) if sizes is None else sizes[picks].sum(axis=1))
    return means


def _swapped_means(gaps: np.ndarray, resamples: int, random: np.random.Generator) -> np.ndarray:
    means = np.empty(resamples)
    for start in range(0, resamples, _CHUNK):
        stop = min(start + _CHUNK, resamples)
        signs = random.integers(2, size=(stop - start, len(gaps)), dtype=np.int8) * 2 - 1
        means[start:stop] = signs @ gaps / len(gaps)
    return means


def _by_cluster(values: np.ndarray, clusters: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Sum and number of the known values of each cluster that has any, in the order of first appearance."""
    if len(values) != len(clusters):
        raise ValueError(f"{len(values)} values but {len(clusters)} clusters")
    known = [(cluster, value) for cluster, value in zip(clusters, values, strict=True) if not np.isnan(value)]
    places = {cluster: place for place, cluster in enumerate(dict.fromkeys(cluster for cluster, _ in known))}
    sums, sizes = np.zeros(len(places)), np.zeros(len(places))
    for cluster, value in known:
        sums[places[cluster]] += value
        sizes[places[cluster]] += 1
    return sums, sizes


def _ends(draws: np.ndarray, drawn_from: int) -> tuple[float, float]:
    """The 95% percentile interval; NaN where a single item or cluster was all that could be drawn."""
    if drawn_from < 2:
        return math.nan, math.nan
    low, high = np.percentile(draws, [2.5, 97.5])
    return float(low), float(high)


def _fewest(items: Items, tasks: Sequence[str], weights: np.ndarray) -> int:
    """The number of items in the smallest of the configs that a cell is made of."""
    return min(len(items[task]) for task, weight in zip(tasks, weights, strict=True) if weight)


def _cells(tasks: list[str]) -> dict[str, np.ndarray]:
    """Every cell that the given configs allow, in the table's order, with what each config weighs in it."""
    weights = {task: np.eye(len(tasks))[place] for place, task in enumerate(tasks)}
    for dimension, average in zip(DIMENSIONS, AVERAGES, strict=True):
        names = [task.name for task in TASKS.values() if task.dimension == dimension]
        if set(names) <= set(tasks):
            weights[average] = np.array([task in names for task in tasks]) / len(names)
    if len(tasks) == len(TASKS):
        counts = np.array([TASKS[task].count for task in tasks], dtype=float)
        weights[OVERALL] = counts / counts.sum()
    return {cell: weights[cell] for cell in CELLS if cell in weights}
