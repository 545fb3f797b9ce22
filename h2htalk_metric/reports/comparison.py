"""The table of `h2htalk compare`."""

__all__ = ["comparison"]

from collections.abc import Mapping

from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.reports.table import Column, Row, Table, ends, numbers
from h2htalk_metric.runs.run import Run
from h2htalk_metric.runs.scoring import read_scores
from h2htalk_metric.stats.intervals import Interval
from h2htalk_metric.stats.significance import PairedTest

_LEVEL = 0.05


def comparison(first: Run, second: Run, tests: Mapping[str, PairedTest]) -> Table:
    """Two scored runs and the tests of their differences.

    A star marks a config that differs at 5% after Holm's correction over the configs. Averages and Overall are sums of
    configs and are not corrected, so they never have a star.

    Args:
        first: run A.
        second: run B, over the same records.
        tests: of A minus B, by cell of Table 2; see :func:`h2htalk_metric.runs.compare.compare_runs`.

    """
    row_a, row_b = read_scores(first).row(), read_scores(second).row()
    rows = []
    for cell, test in tests.items():
        corrected = cell in TASKS
        cells = (
            cell,
            f"{row_a[cell]:.2f}",
            f"{row_b[cell]:.2f}",
            f"{test.difference:+.2f}",
            ends(Interval(test.difference, test.low, test.high), "+.2f"),
            f"{test.p:.4f}",
            f"{test.p_holm:.4f}" if corrected else "-",
            "*" if corrected and test.p_holm < _LEVEL else "",
        )
        rows.append(Row(cells, emphasized=not corrected))
    return Table(
        f"S times 100: A = {first.model}, B = {second.model}",
        (
            Column("cell", "text"),
            *numbers("A", "B", "A - B", "95% interval", "p", "p (Holm)"),
            Column("", "text"),
        ),
        tuple(rows),
        notes=(
            f"A is {first.path}, B is {second.path}.",
            "Intervals are 95% (Student's t with cluster-robust standard errors); p-values are from random sign "
            "flips of whole clusters; clusters are relationships.",
            "* p (Holm) < 0.05, corrected over the configs. The p of averages and Overall is not corrected.",
        ),
    )
