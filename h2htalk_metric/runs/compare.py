"""``h2htalk compare A B``: two runs over the same records, tested pair by pair."""

__all__ = ["check_comparable", "compare_runs"]

from pathlib import Path

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.runs.run import Run
from h2htalk_metric.runs.scoring import RunScores, read_scores
from h2htalk_metric.stats.significance import PairedTest, paired_row_tests

_SAME_METRIC = (
    "embedder",
    "embedder_revision",
    "embedder_precision",
    "bleu",
    "rouge",
    "tokenizers",
    "dataset",
)


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


def check_comparable(first: RunScores, second: RunScores) -> None:
    """Check that two runs were scored in the same way over the same records.

    Raises:
        H2HTalkError: they were not; names the first difference.

    """
    for key in _SAME_METRIC:
        one, other = first.signature.get(key), second.signature.get(key)
        if one != other:
            raise H2HTalkError(f"the runs' signatures differ in {key} ({one} against {other}); score both the same way")
    if first.items["id"].tolist() != second.items["id"].tolist():
        raise H2HTalkError("the runs hold different records; compare runs with the same tasks and limit")
