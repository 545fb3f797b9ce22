"""The tables of `h2htalk compare`."""

__all__ = ["comparison", "judged_comparison", "slice_comparison"]

from collections.abc import Mapping

from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.judge.judged_slices import JUDGED_MEASURES
from h2htalk_metric.reports.slice_tables import effects_table
from h2htalk_metric.reports.table import DETECTABLE_BY_FLIPS, Column, Row, Table, ends, numbers, shown
from h2htalk_metric.runs.run import Run
from h2htalk_metric.runs.scoring import read_scores
from h2htalk_metric.runs.slices import NeedEffects
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
            shown(test.detectable),
            f"{test.p:.4f}",
            f"{test.p_holm:.4f}" if corrected else "-",
            _star(test) if corrected else "",
        )
        rows.append(Row(cells, emphasized=not corrected))
    return Table(
        f"S times 100: A = {first.model}, B = {second.model}",
        (
            Column("cell", "text"),
            *numbers("A", "B", "A - B", "95% interval", "detectable", "p", "p (Holm)"),
            Column("", "text"),
        ),
        tuple(rows),
        notes=(
            f"A is {first.path}, B is {second.path}.",
            "Intervals are 95% (Student's t with cluster-robust standard errors); p-values are from random sign "
            "flips of whole clusters; clusters are relationships.",
            DETECTABLE_BY_FLIPS,
            "* p (Holm) < 0.05, corrected over the configs. The p of averages and Overall is not corrected.",
        ),
    )


def slice_comparison(tests: Mapping[tuple[str, str], PairedTest], effects: NeedEffects | None) -> list[Table]:
    """The differences of two runs by kind of record, and the difference of their effects of an unsaid need.

    Args:
        tests: of A minus B; see :func:`h2htalk_metric.runs.compare.compare_slices`.
        effects: of A minus those of B; see :func:`h2htalk_metric.runs.compare.compare_need`.

    Returns:
        No table for runs whose scores lack these columns.

    """
    if not tests:
        return []
    table = _levels_table("A minus B by kind of record, S times 100", tests)
    return [table, *([effects_table("A minus B: unsaid minus explicit needs", effects)] if effects else [])]


def judged_comparison(tests: Mapping[str, Mapping[tuple[str, str], PairedTest]]) -> list[Table]:
    """The differences of two judged runs per config and by kind of record.

    Args:
        tests: of A minus B; see :func:`h2htalk_metric.judge.judged_slices.compare_judged`.

    """
    return [
        _levels_table(f"A minus B, {JUDGED_MEASURES[measure]}, 0 to 5", of_measure)
        for measure, of_measure in tests.items()
    ]


def _levels_table(title: str, tests: Mapping[tuple[str, str], PairedTest]) -> Table:
    rows = []
    for (factor, level), test in tests.items():
        cells = (
            factor,
            level,
            str(test.items),
            f"{test.difference:+.2f}",
            ends(Interval(test.difference, test.low, test.high), "+.2f"),
            shown(test.detectable),
            f"{test.p_holm:.4f}",
            _star(test),
        )
        rows.append(Row(cells))
    return Table(
        title,
        (
            Column("factor", "text"),
            Column("level", "text"),
            *numbers("n", "A - B", "95% interval", "detectable", "p (Holm)"),
            Column("", "text"),
        ),
        tuple(rows),
        notes=(DETECTABLE_BY_FLIPS, "* p (Holm) < 0.05, corrected over the levels of one factor."),
    )


def _star(test: PairedTest) -> str:
    return "*" if test.p_holm < _LEVEL else ""
