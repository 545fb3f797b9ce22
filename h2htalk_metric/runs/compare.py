"""`h2htalk compare A B`: two runs over the same records, tested pair by pair."""

__all__ = ["compare_runs", "comparison_table"]

from math import isnan

from rich.markup import escape
from rich.table import Table

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.runs.scoring import RunScores
from h2htalk_metric.stats.bootstrap import PairedTest, compare

_SAME_METRIC = (
    "embedder",
    "embedder_revision",
    "embedder_precision",
    "bleu",
    "rouge",
    "tokenizers",
    "dataset",
)
_LEVEL = 0.05


def compare_runs(
    first: RunScores, second: RunScores, *, resamples: int = 10_000, seed: int = 0
) -> dict[str, PairedTest]:
    """Test two scored runs cell by cell, on S times 100.

    Raises:
        H2HTalkError: they were scored in different ways, or hold different records.

    """
    for key in _SAME_METRIC:
        one, other = first.signature.get(key), second.signature.get(key)
        if one != other:
            raise H2HTalkError(f"the runs' signatures differ in {key} ({one} against {other}); score both the same way")
    if first.items["id"].tolist() != second.items["id"].tolist():
        raise H2HTalkError("the runs hold different records; compare runs with the same tasks and limit")
    one, other = ({task: 100 * s for task, s in run.composites().items()} for run in (first, second))
    return compare(one, other, resamples=resamples, seed=seed)


def comparison_table(first: RunScores, second: RunScores, tests: dict[str, PairedTest]) -> Table:
    """The comparison for a terminal; a star marks configs that differ at 5% after Holm's correction over the configs.

    Averages and Overall are sums of configs and in no correction, so they have their own p and never a star.
    """
    names = [escape(run.model) for run in (first, second)]
    table = Table(title=f"S times 100: A = {names[0]}, B = {names[1]}", title_justify="left")
    for head in ("cell", "A", "B", "A - B", "95% interval", "p", "p (Holm)", ""):
        table.add_column(head, justify="left" if head in ("cell", "") else "right")
    rows = first.row(), second.row()
    for cell, test in tests.items():
        figures = [f"{row[cell]:.2f}" for row in rows]
        interval = "-" if isnan(test.low) else f"{test.low:+.2f} to {test.high:+.2f}"  # a single item has none
        corrected, star = ("-", "") if cell not in TASKS else (f"{test.p_holm:.4f}", "*" * (test.p_holm < _LEVEL))
        table.add_row(cell, *figures, f"{test.difference:+.2f}", interval, f"{test.p:.4f}", corrected, star)
    return table
