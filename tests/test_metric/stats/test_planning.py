"""Plans of a comparison: the variance is estimated well, and a planned comparison has the promised power."""

import math

import numpy as np
import pytest

from h2htalk_metric.stats.clusters import ClusterSums
from h2htalk_metric.stats.intervals import weighted_interval
from h2htalk_metric.stats.planning import plan, proxy_differences

BETWEEN, WITHIN = 2.0, 6.0


def differences(random, relationships, per_relationship, mean=0.0):
    """Simulated item differences of one config with relationship effects."""
    effects = random.normal(0, BETWEEN, relationships)
    values = np.repeat(effects, per_relationship) + random.normal(mean, WITHIN, relationships * per_relationship)
    labels = np.repeat(np.arange(relationships), per_relationship).astype(str)
    return ClusterSums.of({"DialogueBase": values}, {"DialogueBase": labels})


@pytest.fixture(scope="module")
def wide():
    """Many relationships, so that the estimates are close to the true variances."""
    return differences(np.random.default_rng(1), 2000, 20)


def test_the_limit_and_the_relationships_follow_from_the_two_variances(wide):
    target = 1.0
    (cell,) = plan(wide, target)
    quantiles = 1.961 + 0.842
    variance = (target / quantiles) ** 2
    # Student's t needs some more than the normal quantiles.
    assert cell.relationships_needed == pytest.approx((BETWEEN**2 + WITHIN**2 / 20) / variance, rel=0.15)
    assert (cell.records, cell.relationships) == (40_000, 2000)
    assert cell.detectable == pytest.approx(quantiles * math.sqrt((BETWEEN**2 + WITHIN**2 / 20) / 2000), rel=0.1)
    # Each record is of another relationship as long as there are enough of them.
    assert cell.limit == pytest.approx((BETWEEN**2 + WITHIN**2) / variance, rel=0.1)


def test_a_planned_comparison_finds_the_difference_four_times_in_five(wide):
    random = np.random.default_rng(2)
    (cell,) = plan(wide, 1.5)
    found = 0
    for _ in range(600):
        sums = differences(random, cell.relationships_needed, 20, mean=1.5)
        found += weighted_interval(sums, np.ones(1)).low > 0
    assert found / 600 == pytest.approx(0.8, abs=0.06)


def test_what_cannot_be_shown_is_none():
    small = differences(np.random.default_rng(3), 10, 5)
    (cell,) = plan(small, 0.01)
    assert cell.limit is None and cell.relationships_needed is None
    assert plan(differences(np.random.default_rng(3), 1, 5), 1.0) == []


def test_more_records_never_make_the_plan_worse(wide):
    limits = [plan(wide, difference)[0].limit for difference in (0.5, 1.0, 2.0)]
    assert limits == sorted(limits, reverse=True)


def test_shipped_differences_have_all_cells_of_table_2():
    cells = {one.cell: one for one in plan(proxy_differences(), 1.0)}
    assert len(cells) == 15
    assert cells["Overall"].records == 4650 and cells["Overall"].relationships == 50
    assert cells["Overall"].detectable < cells["DialogueEmotion"].detectable
