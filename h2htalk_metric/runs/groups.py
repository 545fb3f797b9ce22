"""Many runs next to each other: groups of comparable runs, ranked, with tests between all pairs."""

__all__ = ["LEVEL", "MOST_RUNS", "RunGroup", "labels_of", "run_groups"]

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.languages import LANGUAGES
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.runs.compare import check_comparable, shared_languages
from h2htalk_metric.runs.run import Run
from h2htalk_metric.runs.scoring import RunScores, read_scores
from h2htalk_metric.stats.aggregate import OVERALL
from h2htalk_metric.stats.groups import letter_groups
from h2htalk_metric.stats.intervals import Interval, weighted_interval
from h2htalk_metric.stats.significance import PairedTest, pairwise_tests

MOST_RUNS = 50
"""A page with more runs cannot be read."""
LEVEL = 0.05
"""Two runs differ if their p-value after Holm's correction is below it."""


@dataclass(frozen=True)
class RunGroup:
    """Runs over the same records that were scored in the same way.

    Attributes:
        runs: by label, highest mean first.
        tests: of the mean, first minus second, by pair of labels; p-values are corrected over all pairs (Holm).
        reason: why these runs cannot be compared with those of the first group; empty for the first group.

    """

    runs: dict[str, Run]
    tests: dict[tuple[str, str], PairedTest]
    reason: str = ""

    @cached_property
    def scores(self) -> dict[str, RunScores]:
        """Scores by label."""
        return {label: read_scores(run) for label, run in self.runs.items()}

    @property
    def first(self) -> RunScores:
        """Scores of the run with the highest mean."""
        return next(iter(self.scores.values()))

    @property
    def mean_name(self) -> str:
        """Name of the mean over the configs: Overall if they are all eleven."""
        configs = len(self.first.cluster_sums.tasks)
        return OVERALL if configs == len(TASKS) else f"mean of {configs} configs"

    @cached_property
    def means(self) -> dict[str, Interval]:
        """Mean over the configs, weighted by the counts of Table 1, in S times 100, by label."""
        return {
            label: weighted_interval(scores.cluster_sums, _weights(scores), bounds=(0, 100))
            for label, scores in self.scores.items()
        }

    @cached_property
    def letters(self) -> dict[str, tuple[str, ...]]:
        """Letters by label; runs that share a letter do not differ at 5% after Holm's correction."""
        return letter_groups(list(self.runs), [pair for pair, test in self.tests.items() if test.p_holm < LEVEL])


def run_groups(runs: Sequence[Run], *, resamples: int = 10_000, seed: int = 0) -> list[RunGroup]:
    """Group runs that can be compared, and test all pairs within each group.

    Each language of a run is compared on its own, so a run in two languages is in two groups.

    Args:
        runs: scored runs, 2 to :data:`MOST_RUNS`.
        resamples: random sign assignments of the tests.
        seed: of the sign assignments.

    Returns:
        Groups, the largest first; a run that can be compared with no other is a group of its own.

    Raises:
        H2HTalkError: a run is not scored, a folder is named twice, there are too few or too many runs, or no two runs
            can be compared.

    """
    if not 2 <= len(runs) <= MOST_RUNS:
        raise H2HTalkError(f"{len(runs)} runs; compare 2 to {MOST_RUNS} runs")
    label = _labels_of_parts(runs)
    parts = [part for run in runs for part in run.by_language.values()]
    groups: list[list[Run]] = []
    for run in parts:
        group = next((group for group in groups if not _difference(group[0], run)), None)
        if group is None:
            groups.append([run])
        else:
            group.append(run)
    groups.sort(key=len, reverse=True)
    if len(groups[0]) < 2:
        for one, other in shared_languages(runs[0], runs[1]).values():
            check_comparable(read_scores(one), read_scores(other))
    return [
        _ranked({label[id(run)]: run for run in group}, _difference(groups[0][0], group[0]), resamples, seed)
        for group in groups
    ]


def labels_of(runs: Sequence[Run]) -> list[str]:
    """A unique name per run: its model, with its folder if several runs have that model.

    Raises:
        H2HTalkError: a folder is named twice.

    """
    paths = Counter(run.path.resolve() for run in runs)
    if twice := [path for path, count in paths.items() if count > 1]:
        raise H2HTalkError(f"{twice[0]} is named twice; name each run once")
    models, folders = Counter(run.model for run in runs), Counter(run.path.name for run in runs)
    return [
        run.model
        if models[run.model] == 1
        else f"{run.model} ({run.path.name if folders[run.path.name] == 1 else run.path})"
        for run in runs
    ]


def _labels_of_parts(runs: Sequence[Run]) -> dict[int, str]:
    """Label by the identity of each run's part in one language, with the language if there are several."""
    several = len({code for run in runs for code in run.languages}) > 1
    return {
        id(part): f"{label}, {LANGUAGES[code].native_name}" if several else label
        for run, label in zip(runs, labels_of(runs), strict=True)
        for code, part in run.by_language.items()
    }


def _ranked(runs: dict[str, Run], reason: str, resamples: int, seed: int) -> RunGroup:
    means = RunGroup(runs, {}).means
    ranked = {label: runs[label] for label in sorted(runs, key=lambda label: -means[label].value)}
    sums = {label: read_scores(run).cluster_sums for label, run in ranked.items()}
    weights = _weights(read_scores(next(iter(ranked.values()))))
    return RunGroup(ranked, pairwise_tests(sums, weights, resamples=resamples, seed=seed), reason)


def _weights(scores: RunScores) -> np.ndarray:
    counts = np.array([TASKS[task].count for task in scores.cluster_sums.tasks], dtype=float)
    return counts / counts.sum()


def _difference(first: Run, second: Run) -> str:
    """Why two runs cannot be compared; empty if they can."""
    if first is second:
        return ""
    try:
        check_comparable(read_scores(first), read_scores(second))
    except H2HTalkError as error:
        return str(error)
    return ""
