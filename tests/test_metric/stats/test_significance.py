"""Paired tests by sign flips of clusters, against cases worked out by hand and SciPy."""

import math

import numpy as np
import pytest
from scipy import stats

from h2htalk_datasets import TASKS
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.stats.clusters import ClusterSums
from h2htalk_metric.stats.intervals import as_json
from h2htalk_metric.stats.significance import holm, paired_row_tests, paired_test, pairwise_tests

NAN = float("nan")


def scores_per_task(shift=0.0, n=40, seed=3):
    random = np.random.default_rng(seed)
    return {task: np.clip(random.normal(0.4 + shift, 0.15, n), 0, 1) for task in TASKS}


def test_an_exact_test_by_hand():
    # Differences per cluster: a 1 + 2 = 3, b 2, c 1. Of 8 sign assignments only +++ and --- reach 6: p = 2/8.
    test = paired_test([1, 2, 2, 1], [0, 0, 0, 0], ["a", "a", "b", "c"])
    assert (test.items, test.clusters, test.difference, test.p) == (4, 3, 1.5, 0.25)
    # As single items only ++++ and ---- reach 6, of 16.
    assert paired_test([1, 2, 2, 1], [0, 0, 0, 0]).p == 2 / 16
    # With one cluster both sign assignments are as extreme.
    assert paired_test([1, 1], [0, 0], ["a", "a"]).p == 1


def test_the_same_by_random_signs():
    # Differences 3, 2, 1: of 8 sign assignments two reach 6.
    tests = paired_row_tests({"DialogueBase": [3, 2, 1]}, {"DialogueBase": [0, 0, 0]})
    assert tests["DialogueBase"].p == 0.25
    random = np.random.default_rng(0)
    first, clusters = random.normal(0.5, 1, 60), [str(place // 3) for place in range(60)]
    sums = first.reshape(20, 3).sum(axis=1)
    signs = random.choice([-1, 1], size=(20_000, 20))
    expected = (np.abs(signs @ sums) >= abs(sums.sum())).mean()
    assert paired_test(first, np.zeros(60), clusters).p == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("shift", [0.0, 0.03, 0.08])
def test_p_values_are_scipys(shift):
    first, second = scores_per_task(shift)["DialogueBase"], scores_per_task(seed=4)["DialogueBase"]
    ours = paired_row_tests({"DialogueBase": first}, {"DialogueBase": second})["DialogueBase"].p
    theirs = stats.permutation_test(
        (first, second), lambda a, b: np.mean(a - b), permutation_type="samples", n_resamples=10_000, random_state=2
    ).pvalue
    assert ours == pytest.approx(theirs, abs=0.02)


def test_the_interval_of_a_difference_is_students():
    first, second = scores_per_task(0.05)["DialogueBase"], scores_per_task(seed=4)["DialogueBase"]
    test = paired_test(first, second)
    expected = stats.ttest_rel(first, second).confidence_interval(0.95)
    assert (test.low, test.high) == pytest.approx((expected.low, expected.high))


def test_the_detectable_difference_has_80_percent_power():
    # Students' test of 40 differences with this true mean rejects in 80% of samples.
    random, size = np.random.default_rng(5), 40
    detectable = np.mean([paired_test(random.normal(0, 1, size), np.zeros(size)).detectable for _ in range(200)])
    samples = random.normal(detectable, 1, (4000, size))
    assert (stats.ttest_1samp(samples, 0, axis=1).pvalue < 0.05).mean() == pytest.approx(0.8, abs=0.03)


def test_nothing_is_detectable_where_no_p_value_can_be_small():
    random = np.random.default_rng(6)
    differences = random.normal(0, 1, 60)
    for num_clusters, smallest_p in ((5, 2 / 32), (6, 2 / 64)):
        clusters = [str(place % num_clusters) for place in range(60)]
        far = paired_test(differences + 100, np.zeros(60), clusters)
        assert far.p == smallest_p and math.isnan(far.detectable) == (smallest_p > 0.05)


def test_a_run_against_itself_differs_nowhere():
    items = scores_per_task()
    for test in paired_row_tests(items, items).values():
        assert (test.difference, test.low, test.high, test.p) == (0, 0, 0, 1)


def test_a_shift_is_detected_and_corrected_over_configs():
    tests = paired_row_tests(scores_per_task(0.2), scores_per_task(seed=4))
    assert tests["Overall"].p < 0.001
    assert all(tests[task].p <= tests[task].p_holm for task in TASKS)
    assert tests["Overall"].p == tests["Overall"].p_holm


def test_the_same_seed_gives_the_same_p_values():
    first, second = scores_per_task(), scores_per_task(seed=4)
    assert paired_row_tests(first, second, resamples=200) == paired_row_tests(first, second, resamples=200)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    # In order 0.01 * 3, 0.02 * 2, 0.04 * 1; the third may not be below the second.
    assert holm([0.02, 0.01, 0.04]) == pytest.approx([0.04, 0.03, 0.04])


def test_items_without_both_values_are_left_out():
    assert paired_test([NAN, 1], [1, NAN], ["a", "b"]) is None
    test = paired_test([1, 1], [0, 1], ["a", "a"])
    assert (test.difference, test.p) == (0.5, 1)
    assert as_json(test)["low"] is as_json(test)["high"] is None


def test_unequal_runs_are_refused():
    with pytest.raises(H2HTalkError, match="DialogueBase: 2 items against 1"):
        paired_row_tests({"DialogueBase": [1, 2]}, {"DialogueBase": [1]})
    with pytest.raises(H2HTalkError, match="only one of them has: DialogueEmotion"):
        paired_row_tests({"DialogueBase": [1], "DialogueEmotion": [1]}, {"DialogueBase": [1]})
    with pytest.raises(H2HTalkError, match="DialogueBase: an item has no value"):
        paired_row_tests({"DialogueBase": [1, NAN]}, {"DialogueBase": [1, 1]})


def test_all_pairs_of_runs_are_tested_as_single_pairs_are_and_corrected_together():
    items = {name: scores_per_task(shift, seed=seed) for name, shift, seed in [("a", 0, 3), ("b", 0.1, 4), ("c", 0, 5)]}
    clusters = {task: [str(place // 4) for place in range(40)] for task in TASKS}
    sums = {name: ClusterSums.of(values, clusters) for name, values in items.items()}
    tests = pairwise_tests(sums, sums["a"].cells()["Overall"])
    assert list(tests) == [("a", "b"), ("a", "c"), ("b", "c")]
    for (one, other), test in tests.items():
        single = paired_row_tests(items[one], items[other], clusters)["Overall"]
        assert test[:-2] == pytest.approx(single[:-2]) and test.detectable == pytest.approx(single.detectable)
    assert [test.p_holm for test in tests.values()] == holm([test.p for test in tests.values()])
    assert pairwise_tests({"a": sums["a"]}, np.ones(11)) == {}
