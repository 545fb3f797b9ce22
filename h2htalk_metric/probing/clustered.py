"""Intervals and paired tests where items come in clusters.

Interactions of one scenario share people, danger and history, so they are no independent draws: whole scenarios are
drawn in the bootstrap, and whole scenarios swap sides in the randomization test. A mean is always over items, so that
larger clusters weigh more, as they do in the figure itself.
"""

__all__ = ["PairedDifference", "clustered_interval", "clustered_test"]

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from h2htalk_metric.statistics import Interval

Values = Sequence[float] | np.ndarray


class PairedDifference(NamedTuple):
    """First less second over the items that both have.

    Attributes:
        items: how many.
        clusters: how many they are of.
        difference: of the means.
        low: lower end of its 95% interval, clusters drawn with replacement.
        high: upper end.
        p: two-sided p-value, clusters swapped at random; exact where there are few.

    """

    items: int
    clusters: int
    difference: float
    low: float
    high: float
    p: float


def clustered_interval(
    values: Values, clusters: Sequence[str], *, rate: bool = False, resamples: int = 10_000, seed: int = 0
) -> Interval | None:
    """The mean with its 95% interval.

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
    picks = np.random.default_rng(seed).integers(len(sums), size=(resamples, len(sums)))
    low, high = np.percentile(sums[picks].sum(axis=1) / sizes[picks].sum(axis=1), [2.5, 97.5])
    return Interval(mean, float(low), float(high))


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
