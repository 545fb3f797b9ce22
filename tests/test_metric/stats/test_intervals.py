"""Intervals of clustered means, against cases worked out by hand, SciPy and statsmodels' formula."""

import math

import numpy as np
import pytest
from scipy import stats

from h2htalk_datasets import TASKS
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.stats.aggregate import CELLS, aggregate
from h2htalk_metric.stats.clusters import ClusterSums
from h2htalk_metric.stats.intervals import (
    Interval,
    as_json,
    design_effects,
    mean_detectable,
    mean_interval,
    row_detectable,
    row_intervals,
    standard_error,
    weighted_interval,
)

NAN = float("nan")


def scores_per_task(n=40, seed=3):
    random = np.random.default_rng(seed)
    return {task: np.clip(random.normal(0.4, 0.15, n), 0, 1) for task in TASKS}


def test_points_are_those_of_the_aggregation():
    items = scores_per_task()
    row = aggregate({task: float(values.mean()) for task, values in items.items()})
    intervals = row_intervals(ClusterSums.of(items))
    assert list(intervals) == list(CELLS)
    assert {cell: interval.value for cell, interval in intervals.items()} == pytest.approx(row)
    assert all(interval.low < interval.value < interval.high for interval in intervals.values())


def test_without_clusters_it_is_students_interval():
    values = scores_per_task()["DialogueBase"]
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert mean_interval(values)[1:] == pytest.approx((expected.low, expected.high))
    assert row_intervals(ClusterSums.of({"DialogueBase": values}))["DialogueBase"] == pytest.approx(
        mean_interval(values)
    )


def test_clusters_of_equal_size_give_students_interval_of_their_means():
    values = np.array([1.0, 3.0, 2.0, 4.0, 6.0, 8.0])
    expected = stats.ttest_1samp([2, 3, 7], 0).confidence_interval(0.95)
    assert mean_interval(values, list("aabbcc")) == pytest.approx((4.0, expected.low, expected.high))


def test_unequal_clusters_by_hand():
    # Mean 2. Cluster totals minus 2 per item: a 3 - 2 = 1, b (1 + 2) - 4 = -1. Standard error sqrt(2 * (1 + 1)) / 3.
    interval = mean_interval([3, 1, 2], ["a", "b", "b"])
    half = stats.t.ppf(0.975, 1) * math.sqrt(4) / 3
    assert interval == pytest.approx((2.0, 2 - half, 2 + half))


def test_ends_stay_within_the_scale():
    wide = mean_interval([1, 5, 4], ["a", "b", "b"])
    assert wide.low < 1 and wide.high > 5
    assert mean_interval([1, 5, 4], ["a", "b", "b"], bounds=(1, 5)) == (wide.value, 1, 5)


def test_items_without_a_value_are_left_out():
    assert mean_interval([NAN, 1, 0, NAN], ["a", "b", "c", "d"]).value == 0.5
    assert mean_interval([NAN, NAN], ["a", "b"]) is None


def test_a_rate_of_none_or_all_is_clopper_and_pearsons():
    # With 0 of k clusters the upper end solves (1 - p)^k = 0.025.
    clusters = [f"{place % 33}" for place in range(150)]
    assert mean_interval([0.0] * 150, clusters, rate=True) == (0.0, 0.0, pytest.approx(1 - 0.025 ** (1 / 33)))
    assert mean_interval([1.0] * 150, clusters, rate=True) == (1.0, pytest.approx(0.025 ** (1 / 33)), 1.0)
    assert mean_interval([4.0] * 150, clusters) == (4.0, 4.0, 4.0)


def test_a_rate_stays_between_0_and_1():
    interval = mean_interval([1.0] + [0.0] * 9, rate=True)
    assert interval.low == 0 and 0.1 < interval.high < 1


def test_one_cluster_has_no_interval():
    interval = mean_interval([1, 0], ["a", "a"])
    assert interval.value == 0.5 and not interval.defined
    assert as_json(interval) == {"value": 0.5, "low": None, "high": None}


def test_a_config_with_one_item_has_no_interval_and_neither_has_its_average():
    intervals = row_intervals(ClusterSums.of(scores_per_task() | {"ItineraryBasic": [0.5]}))
    undefined = {cell for cell in CELLS if not intervals[cell].defined}
    assert undefined == {"ItineraryBasic", "ItineraryAvg", "Overall"}
    assert intervals["ItineraryBasic"].value == 0.5


def test_a_cluster_in_several_configs_is_one_cluster():
    # The same two relationships in both configs: the average is as uncertain as if their errors simply add up.
    items = {"DialogueBase": [1.0, 0.0], "DialogueEmotion": [1.0, 0.0], "DialogueSchedule": [1.0, 0.0]}
    together = row_intervals(ClusterSums.of(items, {task: ["a", "b"] for task in items}))
    assert together["DialogueAvg"] == pytest.approx(together["DialogueBase"])


def test_ends_are_clipped_to_the_range_of_the_score():
    sums = ClusterSums.of({"DialogueBase": [0.0, 0.0, 0.9]})
    assert row_intervals(sums, bounds=(0, 1))["DialogueBase"] == (pytest.approx(0.3), 0, 1)


def test_design_effects_by_hand():
    # Items within a cluster are equal, so ten items are worth two: the effect is 5 * (n - 1) / n * G / (G - 1).
    effect = design_effects(
        ClusterSums.of({"DialogueBase": [1.0] * 5 + [0.0] * 5}, {"DialogueBase": ["a"] * 5 + ["b"] * 5})
    )
    assert effect["DialogueBase"] == pytest.approx(5 * 9 / 10 * 2)
    independent = design_effects(ClusterSums.of({"DialogueBase": [1.0, 0.0, 1.0, 0.0]}))
    assert independent["DialogueBase"] == pytest.approx(1.0)


def test_another_number_of_labels_is_refused():
    with pytest.raises(H2HTalkError, match="DialogueBase: 2 values but 1 cluster labels"):
        ClusterSums.of({"DialogueBase": [1, 0]}, {"DialogueBase": ["a"]})


def test_an_interval_is_a_plain_tuple():
    assert Interval(1.0, 0.5, 1.5)[1:] == (0.5, 1.5)


def test_a_difference_of_the_detectable_size_is_found_four_times_in_five():
    random = np.random.default_rng(0)
    one_run = ClusterSums.of({"DialogueBase": random.normal(50, 10, 50)})
    detectable = row_detectable(one_run)["DialogueBase"]
    found = 0
    for _ in range(2000):
        runs = random.normal(0, one_run_deviation(one_run), (2, 50))
        differences = ClusterSums.of({"": runs[0] - runs[1] + detectable})
        found += weighted_interval(differences, np.ones(1)).low > 0
    assert found / 2000 == pytest.approx(0.8, abs=0.03)
    assert row_detectable(ClusterSums.of({"DialogueBase": [1.0]})) == pytest.approx({"DialogueBase": NAN}, nan_ok=True)


def test_the_detectable_difference_of_a_mean_by_hand():
    # Two clusters: quantiles of t with one degree of freedom are 12.706 and 1.376; the standard error is 0.5.
    values, clusters = [1.0, 1.0, 2.0, 2.0], ["a", "a", "b", "b"]
    assert mean_detectable(values, clusters, paired=True) == pytest.approx(0.5 * (12.706 + 1.376), rel=1e-3)
    other = row_detectable(ClusterSums.of({"DialogueBase": values}, {"DialogueBase": clusters}))["DialogueBase"]
    assert mean_detectable([*values, NAN], [*clusters, "c"]) == pytest.approx(other)
    undefined = [mean_detectable([1.0, 2.0], ["a", "a"]), mean_detectable([NAN]), mean_detectable([0.7] * 9)]
    assert all(math.isnan(one) for one in undefined)


def one_run_deviation(sums):
    """Standard deviation of the items of a run whose items are their own clusters."""
    return standard_error(sums, np.ones(1)) * math.sqrt(len(sums.sums))
