"""Intervals and tests against SciPy and hand-computed cases."""

import numpy as np
import pytest
from scipy import stats

from h2htalk_datasets import TASKS
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.stats.aggregate import aggregate
from h2htalk_metric.stats.bootstrap import CELLS, bootstrap, compare, holm, krippendorff_alpha

RANDOM = np.random.default_rng(3)


def run_of(shift=0.0, n=40):
    return {task: np.clip(RANDOM.normal(0.4 + shift, 0.15, n), 0, 1) for task in TASKS}


def test_points_are_the_aggregators():
    items = run_of()
    row = aggregate({task: float(values.mean()) for task, values in items.items()})
    cells = bootstrap(items, resamples=50)
    assert list(cells) == list(CELLS)
    assert {cell: interval.value for cell, interval in cells.items()} == pytest.approx(row)
    assert all(interval.low <= interval.value <= interval.high for interval in cells.values())


def test_intervals_are_scipys():
    values = run_of()["DialogueBase"]
    ours = bootstrap({"DialogueBase": values})["DialogueBase"]
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=10_000, method="percentile", random_state=1
    ).confidence_interval
    assert (ours.low, ours.high) == pytest.approx(theirs, abs=0.003)


@pytest.mark.parametrize("shift", [0.0, 0.03, 0.08])
def test_p_values_are_scipys(shift):
    first, second = run_of(shift)["DialogueBase"], run_of()["DialogueBase"]
    ours = compare({"DialogueBase": first}, {"DialogueBase": second})["DialogueBase"].p
    theirs = stats.permutation_test(
        (first, second), lambda a, b: np.mean(a - b), permutation_type="samples", n_resamples=10_000, random_state=2
    ).pvalue
    assert ours == pytest.approx(theirs, abs=0.02)


def test_a_hand_computed_randomization():
    # Of the 8 ways to swap three pairs with gaps 3, 2, 1, only +++ and --- reach a sum of 6: p = 1/4.
    p = compare({"DialogueBase": [3, 2, 1]}, {"DialogueBase": [0, 0, 0]}, resamples=40_000)["DialogueBase"].p
    assert p == pytest.approx(0.25, abs=0.01)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_a_run_against_itself_differs_nowhere():
    items = run_of()
    for test in compare(items, items).values():
        assert (test.difference, test.low, test.high, test.p) == (0, 0, 0, 1)


def test_a_shift_is_found_and_corrected_over_configs():
    first, second = run_of(0.2), run_of()
    tests = compare(first, second)
    assert tests["Overall"].p < 0.001
    assert all(tests[task].p <= tests[task].p_holm for task in TASKS)


def test_the_same_seed_gives_the_same_figures_whatever_else_is_there():
    items = run_of()
    assert bootstrap(items, resamples=200) == bootstrap(items, resamples=200)
    alone = bootstrap({"ItineraryMiddle": items["ItineraryMiddle"]}, resamples=200)
    assert alone["ItineraryMiddle"] == bootstrap(items, resamples=200)["ItineraryMiddle"]
    assert list(alone) == ["ItineraryMiddle"]


def test_a_config_of_one_item_has_no_interval_nor_has_what_it_is_part_of():
    items = run_of() | {"ItineraryBasic": [0.5]}
    cells = bootstrap(items, resamples=50)
    assert {cell for cell in CELLS if not cells[cell].known} == {"ItineraryBasic", "ItineraryAvg", "Overall"}
    assert cells["ItineraryBasic"].value == 0.5
    tests = compare(items, items | {"ItineraryBasic": [0.4]}, resamples=50)
    assert np.isnan(tests["ItineraryBasic"].low) and tests["ItineraryBasic"].p == 1


def test_alpha_of_the_literature():
    """Krippendorff's own example (2011), interval data: 0.849."""
    n = np.nan
    ratings = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, n, n, n],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, n, 3],
        [n, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, n],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, n],
    ]
    assert krippendorff_alpha(ratings) == pytest.approx(0.849, abs=5e-4)
    assert krippendorff_alpha([[3, 3], [3, 3]]) is None


def test_unequal_runs_are_refused():
    with pytest.raises(H2HTalkError, match="DialogueBase: 2 items against 1"):
        compare({"DialogueBase": [1, 2]}, {"DialogueBase": [1]})
    with pytest.raises(H2HTalkError, match="only one of them has: DialogueEmotion"):
        compare({"DialogueBase": [1], "DialogueEmotion": [1]}, {"DialogueBase": [1]})
    with pytest.raises(H2HTalkError, match="DialogueBase: an item has no value"):  # it would be called significant
        compare({"DialogueBase": [1, float("nan")]}, {"DialogueBase": [1, 1]})
