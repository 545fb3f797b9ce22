"""Clustered regression against cases worked out by hand."""

import numpy as np
import pytest

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.stats.intervals import mean_detectable, mean_interval
from h2htalk_metric.stats.regression import clustered_regression


def test_a_difference_of_means_is_the_coefficient_of_a_dummy():
    outcome, variable = [1.0, 3.0, 6.0, 8.0], [0, 0, 1, 1]
    effect = clustered_regression(outcome, {"treated": variable}, ["a", "b", "c", "d"])["treated"]
    assert effect.value == pytest.approx(5.0)


def test_fixed_effects_compare_within_groups():
    # Within each group the effect is 1; group y is 10 higher and has more treated items.
    outcome, variable, groups = [0, 1, 10, 11, 11, 11], [0, 1, 0, 1, 1, 1], list("xxyyyy")
    clusters = list("abcdef")
    assert clustered_regression(outcome, {"t": variable}, clusters, groups)["t"].value == pytest.approx(1.0)
    assert clustered_regression(outcome, {"t": variable}, clusters)["t"].value > 3


def test_a_regression_on_nothing_else_gives_nearly_the_interval_of_the_mean():
    # Paired differences within clusters: the coefficient of a treatment that each cluster has once.
    random = np.random.default_rng(0)
    clusters = [str(i) for i in range(40)]
    control, treated = random.normal(0, 1, 40), random.normal(0.5, 1, 40)
    effect = clustered_regression([*control, *treated], {"t": [0] * 40 + [1] * 40}, clusters * 2)["t"]
    interval = mean_interval(treated - control, clusters)
    assert effect.value == pytest.approx(interval.value)
    assert (effect.low, effect.high) == pytest.approx(interval[1:], rel=0.05)
    assert effect.detectable == pytest.approx(mean_detectable(treated - control, clusters, paired=True), rel=0.05)


def test_what_cannot_be_estimated_is_refused():
    with pytest.raises(H2HTalkError, match="at least two relationships"):
        clustered_regression([1, 2], {"t": [0, 1]}, ["a", "a"])
    with pytest.raises(H2HTalkError, match="the effects of t, u cannot be separated"):
        clustered_regression([1, 2, 3, 4], {"t": [0, 1, 0, 0], "u": [0, 2, 0, 0]}, ["a", "b", "c", "d"])
    with pytest.raises(H2HTalkError, match="the effects of t cannot be separated"):  # as many coefficients as clusters
        clustered_regression([1, 2, 3, 4], {"t": [0, 1, 0, 1]}, ["a", "b", "a", "b"])
