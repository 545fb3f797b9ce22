"""Do 95% intervals cover, and do 5% tests reject, as often as they claim? Simulated with the corpus's own clusters."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from h2htalk_datasets import TASKS, load
from h2htalk_metric.runs.slices import FACTORS
from h2htalk_metric.stats.clusters import ClusterSums
from h2htalk_metric.stats.intervals import mean_interval, row_intervals
from h2htalk_metric.stats.significance import paired_row_tests

# The standard deviation of a share of 5% over 10,000 samples is 0.22%. Over 1,000 it is 0.7%, and the extremes of 15
# cells then leave 94 to 96% although the intervals are right.
SAMPLES = 10_000
CORRELATION = 0.035  # within relationships; gives DialogueBase the design effect of 2.3 that a real run has


@pytest.fixture(scope="module")
def records():
    """Task, relationship and what makes the record hard, of every record."""
    rows = [
        (task, one["relationship"], one["need"], one["difficulty"], len(one["history"]))
        for task in TASKS
        for one in load(task)
    ]
    return pd.DataFrame(rows, columns=["task", "relationship", "need", "difficulty", "turns"])


@pytest.fixture(scope="module")
def clusters(records):
    """The relationship of every record by task."""
    return {task: list(rows["relationship"]) for task, rows in records.groupby("task", sort=False)}


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


def shares(counts):
    """Counts as shares of the samples."""
    return {name: round(count / SAMPLES, 4) for name, count in counts.items()}


@pytest.mark.slow
def test_intervals_cover_and_tests_reject_as_claimed(clusters):
    random = np.random.default_rng(17)
    covered, rejected = Counter(), Counter()
    for number in range(SAMPLES):
        first, second = simulated(clusters, random), simulated(clusters, random)
        for cell, interval in row_intervals(ClusterSums.of(first, clusters)).items():
            covered[cell] += interval.low <= 0 <= interval.high
        # Another seed per sample: the same 999 sign flips in all of them would share one error of the p-values.
        for cell, test in paired_row_tests(first, second, clusters, resamples=999, seed=number).items():
            rejected[cell] += test.p <= 0.05
    coverage, rejection = shares(covered), shares(rejected)
    print(f"coverage {coverage}\nrejection {rejection}")
    assert len(coverage) == len(rejection) == 15
    assert all(0.94 <= share <= 0.96 for share in coverage.values()), coverage
    assert all(0.04 <= share <= 0.06 for share in rejection.values()), rejection


@pytest.mark.slow
@pytest.mark.parametrize("factor", ["need", "difficulty", "turns"])
def test_intervals_of_levels_with_many_records_cover_as_claimed(records, clusters, factor):
    levels = FACTORS[factor](records)
    # Levels with fewer records cover less (93.2% with 16 records of 13 relationships), since the scores are skewed.
    chosen = {level: (levels == level).to_numpy() for level, n in levels.value_counts().items() if n > 100}
    relationships = records["relationship"].to_numpy()
    random, covered = np.random.default_rng(18), Counter()
    for _ in range(SAMPLES):
        values = np.concatenate(list(simulated(clusters, random).values()))
        for level, of_level in chosen.items():
            interval = mean_interval(values[of_level], relationships[of_level])
            covered[level] += interval.low <= 0 <= interval.high
    coverage = shares(covered)
    print(f"coverage {coverage}")
    assert len(coverage) > 2
    assert all(0.94 <= share <= 0.96 for share in coverage.values()), coverage
