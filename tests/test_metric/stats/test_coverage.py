"""Do 95% intervals cover, and do 5% tests reject, as often as they claim? Simulated with the corpus's own clusters."""

import numpy as np
import pytest

from h2htalk_datasets import TASKS, load
from h2htalk_metric.stats.clusters import ClusterSums
from h2htalk_metric.stats.intervals import row_intervals
from h2htalk_metric.stats.significance import paired_row_tests

SAMPLES = 1000
CORRELATION = 0.035  # within relationships; gives DialogueBase the design effect of 2.3 that a real run has


@pytest.fixture(scope="module")
def clusters():
    """The relationship of every record by task."""
    return {task: list(load(task)["relationship"]) for task in TASKS}


def simulated(clusters, random):
    """Skewed scores with mean 0 whose relationships have effects, shared in part by all tasks."""
    labels = sorted({label for task in clusters.values() for label in task})
    shared = random.normal(0, np.sqrt(CORRELATION / 2), len(labels))
    scores = {}
    for task, relationships in clusters.items():
        own = random.normal(0, np.sqrt(CORRELATION / 2), len(labels))
        places = np.array([labels.index(label) for label in relationships])
        noise = (random.gamma(2, 1, len(relationships)) - 2) / np.sqrt(2)
        scores[task] = (shared + own)[places] + np.sqrt(1 - CORRELATION) * noise
    return scores


@pytest.mark.slow
def test_intervals_cover_and_tests_reject_as_claimed(clusters):
    random = np.random.default_rng(17)
    covered: dict[str, int] = {}
    rejected: dict[str, int] = {}
    for _ in range(SAMPLES):
        first, second = simulated(clusters, random), simulated(clusters, random)
        for cell, interval in row_intervals(ClusterSums.of(first, clusters)).items():
            covered[cell] = covered.get(cell, 0) + (interval.low <= 0 <= interval.high)
        for cell, test in paired_row_tests(first, second, clusters, resamples=999).items():
            rejected[cell] = rejected.get(cell, 0) + (test.p <= 0.05)
    coverage = {cell: round(count / SAMPLES, 3) for cell, count in covered.items()}
    rejection = {cell: round(count / SAMPLES, 3) for cell, count in rejected.items()}
    print(f"coverage {coverage}\nrejection {rejection}")
    # The standard deviation of such a share over 1,000 samples is 0.7%, and there are 15 cells.
    assert 0.94 <= np.mean(list(coverage.values())) <= 0.96, coverage
    assert 0.04 <= np.mean(list(rejection.values())) <= 0.06, rejection
    assert all(0.93 <= share <= 0.97 for share in coverage.values()), coverage
    assert all(0.03 <= share <= 0.07 for share in rejection.values()), rejection
