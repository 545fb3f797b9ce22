"""Intervals and paired tests by cluster, against cases worked out by hand."""

import numpy as np
import pytest

from h2htalk_metric.stats.bootstrap import as_json, clustered_interval, clustered_test, holm

NAN = float("nan")


def test_two_scenarios_by_hand():
    # Drawn are aa (mean 3/3), ab or ba (3/4), bb (0/1), so a resample is 1, 3/4 or 0 with odds 1:2:1.
    found = clustered_interval([1, 1, 1, 0], ["a", "a", "a", "b"])
    assert found == (0.75, 0.0, 1.0)


def test_items_of_one_scenario_are_drawn_together():
    # Ten equal answers of one scenario against ten of another are two draws, not twenty.
    values, clusters = [1.0] * 10 + [0.0] * 10, ["a"] * 10 + ["b"] * 10
    assert clustered_interval(values, clusters) == (0.5, 0.0, 1.0)
    single = clustered_interval(values, [str(place) for place in range(20)])
    assert 0.2 < single.low < 0.4 and 0.6 < single.high < 0.8


def test_what_has_no_value_is_left_out():
    assert clustered_interval([NAN, 1, 0, NAN], ["a", "b", "c", "d"]).value == 0.5
    assert clustered_interval([NAN, NAN], ["a", "b"]) is None
    assert clustered_test([NAN, 1], [1, NAN], ["a", "b"]) is None


def test_a_rate_of_none_or_all_says_what_may_be_unseen():
    # With 0 of k the upper end solves (1 - p)^k = 0.025.
    clusters = [f"{place % 33}" for place in range(150)]
    none = clustered_interval([0.0] * 150, clusters, rate=True)
    assert none == (0.0, 0.0, pytest.approx(1 - 0.025 ** (1 / 33)))
    full = clustered_interval([1.0] * 150, clusters, rate=True)
    assert full == (1.0, pytest.approx(0.025 ** (1 / 33)), 1.0)
    assert clustered_interval([4.0] * 150, clusters) == (4.0, 4.0, 4.0)


def test_an_exact_test_by_hand():
    # Gaps by scenario sum to a: 1 + 2 = 3, b: 2, c: 1. Of 8 swaps only +++ and --- reach 6: p = 2/8.
    found = clustered_test([1, 2, 2, 1], [0, 0, 0, 0], ["a", "a", "b", "c"])
    assert (found.items, found.clusters, found.difference, found.p) == (4, 3, 1.5, 0.25)
    # As single items 1, 2, 2, 1 also only ++++ and ---- reach 6, of 16.
    assert clustered_test([1, 2, 2, 1], [0, 0, 0, 0], "abcd").p == 2 / 16
    # One scenario swaps nothing away: both swaps are as extreme.
    assert clustered_test([1, 1], [0, 0], ["a", "a"]).p == 1


def test_the_interval_of_a_difference_by_hand():
    # Scenario means of the gap are 1 and 0 with two items each: a resample is 1, 1/2 or 0.
    found = clustered_test([1, 1, 1, 0], [0, 0, 1, 0], ["a", "a", "b", "b"])
    assert (found.difference, found.low, found.high) == (0.5, 0.0, 1.0)


def test_many_scenarios_are_swapped_at_random():
    random = np.random.default_rng(0)
    first, clusters = random.normal(0.5, 1, 60), [str(place // 3) for place in range(60)]
    found = clustered_test(first, np.zeros(60), clusters)
    sums = first.reshape(20, 3).sum(axis=1)
    signs = random.choice([-1, 1], size=(20_000, 20))
    assert found.p == pytest.approx((np.abs(signs @ sums) >= abs(sums.sum())).mean(), abs=0.02)


def test_holm_over_three_variants_by_hand():
    # In order 0.01 * 3, 0.02 * 2, 0.04 * 1; the third may not be below the second.
    assert holm([0.02, 0.01, 0.04]) == pytest.approx([0.04, 0.03, 0.04])


def test_a_single_scenario_has_no_interval():
    # Whatever is drawn, it is the same two answers; that says nothing of other scenarios.
    found = clustered_interval([1, 0], ["a", "a"])
    assert found.value == 0.5 and not found.known
    assert as_json(found) == {"value": 0.5, "low": None, "high": None}
    test = clustered_test([1, 1], [0, 1], ["a", "a"])
    assert (test.difference, test.p) == (0.5, 1)
    assert as_json(test)["low"] is as_json(test)["high"] is None


def test_unequal_lengths_are_refused():
    with pytest.raises(ValueError, match="2 values but 1 clusters"):
        clustered_interval([1, 0], ["a"])
