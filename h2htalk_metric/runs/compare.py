"""``h2htalk compare A B``: two runs over the same records, tested pair by pair."""

__all__ = [
    "check_comparable",
    "compare_need",
    "compare_runs",
    "compare_slices",
    "difference_sums",
    "shared_languages",
]

from pathlib import Path

import pandas as pd

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.runs.run import Run
from h2htalk_metric.runs.scoring import RunScores, read_scores
from h2htalk_metric.runs.slices import FACTORS, NeedEffects, levels_of, need_effects
from h2htalk_metric.stats.clusters import ClusterSums
from h2htalk_metric.stats.significance import PairedTest, paired_group_tests, paired_row_tests

_SAME_METRIC = (
    "embedder",
    "embedder_revision",
    "embedder_precision",
    "bleu",
    "rouge",
    "tokenizers",
    "dataset",
    "references",
)


def shared_languages(first: Run, second: Run) -> dict[str, tuple[Run, Run]]:
    """The parts of two runs in each language that both have; each pair is tested on its own.

    Raises:
        H2HTalkError: they have no common language.

    """
    shared = [code for code in first.languages if code in second.languages]
    if not shared:
        raise H2HTalkError(
            f"the runs have no common language: {first.path} is in {', '.join(first.languages)}, {second.path} in "
            f"{', '.join(second.languages)}"
        )
    return {code: (first.by_language[code], second.by_language[code]) for code in shared}


def compare_runs(
    first: Run | str | Path, second: Run | str | Path, *, resamples: int = 10_000, seed: int = 0
) -> dict[str, PairedTest]:
    """Test every cell of two scored runs, on S times 100, with relationships as clusters.

    Args:
        first: a scored run, or its folder.
        second: another run over the same records.
        resamples: random sign assignments of the tests.
        seed: of the sign assignments.

    Raises:
        H2HTalkError: a run is not scored, they were scored in different ways, or they hold different records.

    """
    one, other = read_scores(first), read_scores(second)
    check_comparable(one, other)
    values, others = ({task: 100 * s for task, s in scores.composites().items()} for scores in (one, other))
    return paired_row_tests(values, others, one.clusters(), resamples=resamples, seed=seed)


def difference_sums(first: Run | str | Path, second: Run | str | Path) -> ClusterSums:
    """Differences of two runs in S times 100, summed per relationship and config.

    Raises:
        H2HTalkError: see :func:`compare_runs`.

    """
    one, other = read_scores(first), read_scores(second)
    check_comparable(one, other)
    values, others = one.composites(), other.composites()
    return ClusterSums.of({task: 100 * (values[task] - others[task]) for task in values}, one.clusters())


def compare_slices(
    first: Run | str | Path, second: Run | str | Path, *, resamples: int = 10_000, seed: int = 0
) -> dict[tuple[str, str], PairedTest]:
    """Test the difference of two runs at every level of need, difficulty, turns and emotion.

    Args:
        first: a scored run, or its folder.
        second: another run over the same records.
        resamples: see :func:`compare_runs`.
        seed: see :func:`compare_runs`.

    Returns:
        Test by factor and level; p-values are corrected over the levels of one factor (Holm). Empty for runs whose
        scores lack these columns.

    Raises:
        H2HTalkError: see :func:`compare_runs`.

    """
    one, other = read_scores(first), read_scores(second)
    check_comparable(one, other)
    clusters = one.items["relationship"].to_numpy()
    values, others = (100 * scores.items["composite"].to_numpy() for scores in (one, other))
    results: dict[tuple[str, str], PairedTest] = {}
    for factor in FACTORS:
        levels = {level: chosen.to_numpy() for level, chosen in levels_of(one, factor).items()}
        tests = paired_group_tests(values, others, levels, clusters, resamples=resamples, seed=seed)
        results |= {(factor, level): test for level, test in tests.items()}
    return results


def compare_need(first: Run | str | Path, second: Run | str | Path) -> NeedEffects | None:
    """Effect of an unsaid need on the first run minus that on the second, in points of S times 100.

    Returns:
        None if :func:`h2htalk_metric.runs.slices.need_effects` is.

    Raises:
        H2HTalkError: see :func:`compare_runs`.

    """
    one, other = read_scores(first), read_scores(second)
    check_comparable(one, other)
    return need_effects(one, pd.Series(100 * (one.items["composite"] - other.items["composite"]).to_numpy()))


def check_comparable(first: RunScores, second: RunScores) -> None:
    """Check that two runs were scored in the same way over the same records.

    Raises:
        H2HTalkError: they were not; names the first difference.

    """
    languages = [scores.items["language"].iat[0] for scores in (first, second)]
    if languages[0] != languages[1]:
        raise H2HTalkError(f"the runs are in different languages ({languages[0]} against {languages[1]})")
    for key in _SAME_METRIC:
        one, other = first.signature.get(key), second.signature.get(key)
        if one != other:
            raise H2HTalkError(f"the runs' signatures differ in {key} ({one} against {other}); score both the same way")
    if first.items["id"].tolist() != second.items["id"].tolist():
        raise H2HTalkError("the runs hold different records; compare runs with the same tasks and limit")
