"""Paired tests of two runs over the same items, by random sign flips of whole clusters, and Holm's correction.

If the two runs are exchangeable, the difference of each cluster is as likely to have one sign as the other. The p-value
is the share of sign assignments that give a difference at least as large (approximate randomization: Noreen 1989).
"""

__all__ = ["PairedTest", "holm", "paired_group_tests", "paired_row_tests", "paired_test", "pairwise_tests"]

import math
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import NamedTuple

import numpy as np

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.stats.clusters import Clusters, ClusterSums, Items
from h2htalk_metric.stats.intervals import minimum_detectable_difference, standard_error, weighted_interval

_FEWEST = 6  # clusters; the smallest p is 2 / 2**clusters, the share of the observed signs and of all signs reversed
_RESAMPLES_PER_PAIR = 100
_TOLERANCE = 1e-9  # sums in another order differ in the last bits


class PairedTest(NamedTuple):
    """First minus second over the same items.

    Attributes:
        items: number of items that both have.
        clusters: number of clusters of these items.
        difference: of the means.
        low: lower end of its 95% interval, NaN if undefined.
        high: upper end, NaN if undefined.
        p: two-sided p-value; exact if all sign assignments fit into `resamples`.
        p_holm: p after Holm's correction over the configs; equal to `p` for averages, Overall and single tests.
        detectable: smallest true difference that such a test finds with 80% power at 5%. NaN if the differences show no
            variance, or with fewer than six clusters, whose sign flips cannot give p of 5%.

    """

    items: int
    clusters: int
    difference: float
    low: float
    high: float
    p: float
    p_holm: float
    detectable: float


def paired_test(
    first: Sequence[float] | np.ndarray,
    second: Sequence[float] | np.ndarray,
    clusters: Sequence[str] | None = None,
    *,
    resamples: int = 10_000,
    seed: int = 0,
) -> PairedTest | None:
    """Test the difference of two means over the same items.

    Args:
        first: values, shape (items,); an item without a value (NaN) on either side is left out.
        second: values of the same items in the same order.
        clusters: label per item; None: each item is its own cluster.
        resamples: number of random sign assignments, if not all of them are tried.
        seed: of the random sign assignments.

    Returns:
        None if no item has both values.

    """
    differences = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    sums = ClusterSums.of({"": differences}, None if clusters is None else {"": clusters})
    if not len(sums.sums):
        return None
    return _tests(sums, {"": np.ones(1)}, resamples, seed)[""]


def paired_group_tests(
    first: np.ndarray,
    second: np.ndarray,
    groups: Mapping[str, np.ndarray],
    clusters: np.ndarray,
    *,
    resamples: int = 10_000,
    seed: int = 0,
) -> dict[str, PairedTest]:
    """Test the difference of two means within each of several groups; p-values are corrected over the groups (Holm).

    Args:
        first: values, shape (items,); see :func:`paired_test`.
        second: values of the same items in the same order.
        groups: name of a group to which items are in it, bool of shape (items,).
        clusters: label per item.
        resamples: see :func:`paired_test`.
        seed: see :func:`paired_test`.

    Returns:
        Test by group; without groups in which no item has both values.

    """
    tests = {
        name: paired_test(first[chosen], second[chosen], clusters[chosen], resamples=resamples, seed=seed)
        for name, chosen in groups.items()
    }
    defined = {name: test for name, test in tests.items() if test}
    corrected = holm([test.p for test in defined.values()])
    return {name: test._replace(p_holm=p) for (name, test), p in zip(defined.items(), corrected, strict=True)}


def paired_row_tests(
    first: Items, second: Items, clusters: Clusters | None = None, *, resamples: int = 10_000, seed: int = 0
) -> dict[str, PairedTest]:
    """Test every cell of a row of Table 2; p-values of the configs are also corrected (Holm).

    Args:
        first: config name to its items' values, without NaN.
        second: the same configs with the same items in the same order.
        clusters: cluster labels of these items; see :class:`ClusterSums`.
        resamples: see :func:`paired_test`.
        seed: see :func:`paired_test`.

    Raises:
        H2HTalkError: configs or numbers of items differ, or an item has no value.

    """
    _check_same_items(first, second)
    differences = {
        task: np.asarray(first[task], dtype=float) - np.asarray(second[task], dtype=float)
        for task in TASKS
        if task in first
    }
    sums = ClusterSums.of(differences, clusters)
    tests = _tests(sums, sums.cells(), resamples, seed)
    corrected = holm([tests[task].p for task in sums.tasks])
    return tests | {task: tests[task]._replace(p_holm=p) for task, p in zip(sums.tasks, corrected, strict=True)}


def pairwise_tests(
    runs: Mapping[str, ClusterSums], weights: np.ndarray, *, resamples: int = 10_000, seed: int = 0
) -> dict[tuple[str, str], PairedTest]:
    """Test a weighted sum of config means between all pairs of runs; p-values are corrected over the pairs (Holm).

    Args:
        runs: sums by name, over the same items.
        weights: of the configs, shape (tasks,).
        resamples: see :func:`paired_test`; at least 100 per pair are taken, since the smallest p-value after the
            correction is the number of pairs over that of sign assignments.
        seed: see :func:`paired_test`.

    Returns:
        Test of first minus second by pair of names, in the order of `runs`.

    Raises:
        H2HTalkError: two runs have other items.

    """
    differences = {pair: runs[pair[0]].minus(runs[pair[1]]) for pair in combinations(runs, 2)}
    if not differences:
        return {}
    shares = np.stack([_shares(sums) @ weights for sums in differences.values()], axis=1)
    p_values = _sign_flip_p_values(shares, max(resamples, _RESAMPLES_PER_PAIR * len(differences)), seed)
    tests = {
        pair: _paired_test(sums, weights, p) for (pair, sums), p in zip(differences.items(), p_values, strict=True)
    }
    corrected = holm([test.p for test in tests.values()])
    return {pair: test._replace(p_holm=p) for (pair, test), p in zip(tests.items(), corrected, strict=True)}


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction (Holm 1979): adjusted p-values in the given order."""
    order = np.argsort(p_values, kind="stable")
    scaled = np.array(p_values, dtype=float)[order] * np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return adjusted.tolist()


def _tests(sums: ClusterSums, cells: dict[str, np.ndarray], resamples: int, seed: int) -> dict[str, PairedTest]:
    p_values = _sign_flip_p_values(_shares(sums) @ np.stack(list(cells.values()), axis=1), resamples, seed)
    return {
        cell: _paired_test(sums, cell_weight, p) for (cell, cell_weight), p in zip(cells.items(), p_values, strict=True)
    }


def _paired_test(sums: ClusterSums, weights: np.ndarray, p: float) -> PairedTest:
    interval, num_clusters = weighted_interval(sums, weights), sums.num_clusters(weights)
    detectable = math.nan
    if num_clusters >= _FEWEST:
        detectable = minimum_detectable_difference(standard_error(sums, weights), num_clusters)
    num_items = int(sums.counts[:, weights != 0].sum())
    return PairedTest(num_items, num_clusters, *interval, p, p, detectable)


def _shares(sums: ClusterSums) -> np.ndarray:
    """What each cluster adds to the mean of each config, shape (clusters, tasks)."""
    return np.nan_to_num(sums.sums / sums.counts.sum(axis=0))


def _sign_flip_p_values(shares: np.ndarray, resamples: int, seed: int) -> list[float]:
    """Two-sided p-value per column; `shares` holds what each cluster adds to the difference, (clusters, cells)."""
    num_clusters = len(shares)
    exact = num_clusters < 60 and 2**num_clusters <= resamples
    if exact:
        signs = np.array(list(product((1, -1), repeat=num_clusters)), dtype=np.int8)
    else:
        signs = np.random.default_rng(seed).integers(2, size=(resamples, num_clusters), dtype=np.int8) * 2 - 1
    extreme = np.zeros(shares.shape[1], dtype=int)
    observed = np.abs(shares.sum(axis=0)) - _TOLERANCE
    for start in range(0, len(signs), 512):  # in parts, so that memory stays small with thousands of clusters
        extreme += (np.abs(signs[start : start + 512] @ shares) >= observed).sum(axis=0)
    if exact:
        return [float(count) / len(signs) for count in extreme]
    return [float(1 + count) / (1 + resamples) for count in extreme]


def _check_same_items(first: Items, second: Items) -> None:
    if set(first) != set(second):
        only = ", ".join(sorted(set(first) ^ set(second)))
        raise H2HTalkError(f"the two runs hold different configs; only one of them has: {only}")
    for task in first:
        if len(first[task]) != len(second[task]):
            raise H2HTalkError(f"{task}: {len(first[task])} items against {len(second[task])}; compare equal items")
        if np.isnan(first[task]).any() or np.isnan(second[task]).any():
            raise H2HTalkError(f"{task}: an item has no value (NaN), so the mean of the config is undefined")
