"""95% confidence intervals of means over clustered items.

The interval is the mean plus or minus a quantile of Student's t times the cluster-robust standard error, with
``clusters - 1`` degrees of freedom. A percentile bootstrap over 50 clusters covers 93 to 94% in simulation, this one
94.5 to 95% (``tests/test_metric/stats/test_coverage.py``); it also needs no random numbers. Means of few skewed items
cover less: 92.5 to 94% with 7 to 60 items of 7 to 30 clusters.

One cluster cannot show how much another would differ, so its interval is undefined: both ends are NaN.
"""

__all__ = [
    "Interval",
    "as_json",
    "design_effects",
    "mean_detectable",
    "mean_interval",
    "minimum_detectable_difference",
    "row_detectable",
    "row_intervals",
    "weighted_interval",
]

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from h2htalk_metric.stats.clusters import ClusterSums

_CONFIDENCE = 0.95
_POWER = 0.8
_NO_ERROR = 1e-12  # a standard error of equal items is not exactly 0


class Interval(NamedTuple):
    """A mean with its 95% interval, on the scale of the items.

    Attributes:
        value: the mean.
        low: lower end, NaN if undefined.
        high: upper end, NaN if undefined.

    """

    value: float
    low: float
    high: float

    @property
    def defined(self) -> bool:
        """Whether both ends are numbers."""
        return not math.isnan(self.low)


def mean_interval(
    values: Sequence[float] | np.ndarray,
    clusters: Sequence[str] | None = None,
    *,
    bounds: tuple[float, float] | None = None,
    rate: bool = False,
    weights: Sequence[float] | np.ndarray | None = None,
) -> Interval | None:
    """Interval of the mean of clustered items.

    Args:
        values: shape (items,); NaN values are left out.
        clusters: label per item; None: each item is its own cluster.
        bounds: smallest and largest possible value; the ends are clipped to them.
        rate: the values are shares, 0..1. The interval stays within 0..1, and if all values are 0 (or all are 1) it is
            Clopper and Pearson's with clusters as trials, since the sample shows no variance.
        weights: per item, for instance the inverse of its inclusion probability; None: all the same.

    Returns:
        None if no item has a value.

    """
    sums = ClusterSums.of(
        {"": values}, None if clusters is None else {"": clusters}, None if weights is None else {"": weights}
    )
    if not len(sums.sums):
        return None
    interval = weighted_interval(sums, np.ones(1), bounds=(0.0, 1.0) if rate else bounds)
    if rate and interval.value in (0.0, 1.0):
        from scipy.stats import binomtest

        num_clusters = len(sums.sums)
        ends = binomtest(round(interval.value * num_clusters), num_clusters).proportion_ci(_CONFIDENCE)
        return Interval(interval.value, float(ends.low), float(ends.high))
    return interval


def row_intervals(sums: ClusterSums, bounds: tuple[float, float] | None = None) -> dict[str, Interval]:
    """Intervals of every cell of a row of Table 2: configs, averages, Overall.

    Args:
        sums: item values per cluster. A cluster that occurs in several configs enters their averages as one cluster.
        bounds: smallest and largest possible value; the ends are clipped to them.

    """
    return {cell: weighted_interval(sums, weights, bounds=bounds) for cell, weights in sums.cells().items()}


def weighted_interval(sums: ClusterSums, weights: np.ndarray, *, bounds: tuple[float, float] | None = None) -> Interval:
    """Interval of a weighted sum of config means; `weights` has shape (tasks,)."""
    value, num_clusters = float(sums.means @ weights), sums.num_clusters(weights)
    if num_clusters < 2:
        return Interval(value, math.nan, math.nan)
    half = _t_quantile((1 + _CONFIDENCE) / 2, num_clusters) * standard_error(sums, weights)
    low, high = value - half, value + half
    if bounds:
        low, high = max(low, bounds[0]), min(high, bounds[1])
    return Interval(value, low, high)


def standard_error(sums: ClusterSums, weights: np.ndarray) -> float:
    """Cluster-robust standard error of a weighted sum of config means (Miller 2024, Eq. 4, times G / (G - 1))."""
    num_clusters = sums.num_clusters(weights)
    variance = float((sums.influence(weights) ** 2).sum()) * num_clusters / max(num_clusters - 1, 1)
    return math.sqrt(variance)


def design_effects(sums: ClusterSums) -> dict[str, float]:
    """Variance of each config's mean over that of independent items; 1 if clusters do not matter, NaN if undefined."""
    effects = {}
    for column, task in enumerate(sums.tasks):
        count, mean = sums.counts[:, column].sum(), sums.means[column]
        independent = (sums.squares[column] - count * mean**2) / max(count - 1, 1) / count
        clustered = standard_error(sums, np.eye(len(sums.tasks))[column]) ** 2
        defined = independent > 1e-15 and sums.num_clusters(np.eye(len(sums.tasks))[column]) > 1
        effects[task] = float(clustered / independent) if defined else math.nan
    return effects


def minimum_detectable_difference(standard_error: float, num_clusters: int) -> float:
    """Smallest true difference that a two-sided 5% test finds with 80% power.

    Args:
        standard_error: of the paired difference, on the scale of the items.
        num_clusters: behind it.

    Returns:
        NaN for fewer than two clusters, and if the sample shows no variance.

    """
    if num_clusters < 2 or standard_error < _NO_ERROR:
        return math.nan
    return (_t_quantile((1 + _CONFIDENCE) / 2, num_clusters) + _t_quantile(_POWER, num_clusters)) * standard_error


def row_detectable(sums: ClusterSums) -> dict[str, float]:
    """Minimum detectable difference of every cell between this run and another one over the same records.

    The other run is assumed to vary as much, with errors that are independent of this run's. Answers to the same
    records usually vary together, so a paired comparison finds smaller differences: this is an upper bound.
    """
    return {
        cell: minimum_detectable_difference(math.sqrt(2) * standard_error(sums, weights), sums.num_clusters(weights))
        for cell, weights in sums.cells().items()
    }


def mean_detectable(
    values: Sequence[float] | np.ndarray,
    clusters: Sequence[str] | None = None,
    *,
    paired: bool = False,
) -> float:
    """Minimum detectable difference of the mean of clustered items; NaN if it is undefined.

    Args:
        values: see :func:`mean_interval`.
        clusters: see :func:`mean_interval`.
        paired: the values are differences of pairs. If not, the difference is to the mean of an independent run over
            the same items, see :func:`row_detectable`.

    """
    sums = ClusterSums.of({"": values}, None if clusters is None else {"": clusters})
    if not len(sums.sums):
        return math.nan
    error = standard_error(sums, np.ones(1)) * (1 if paired else math.sqrt(2))
    return minimum_detectable_difference(error, sums.num_clusters(np.ones(1)))


def as_json(result: NamedTuple) -> dict[str, Any]:
    """A result by its field names; undefined numbers become None, since JSON has no NaN."""
    fields: Mapping[str, Any] = result._asdict()
    return {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in fields.items()}


def _t_quantile(probability: float, num_clusters: int) -> float:
    from scipy.stats import t

    return float(t.ppf(probability, num_clusters - 1))
