"""What the tables of all probes share: cells of figures and tests, how many answers are marked, and the method."""

__all__ = [
    "DETECTABLE_NOTE",
    "LEVEL",
    "METHOD",
    "NOBODY",
    "TEST_COLUMNS",
    "Result",
    "detectable_cell",
    "detectable_row",
    "interval_of",
    "marked_lines",
    "num_presented",
    "test_cells",
    "value_cell",
]

import math
from collections.abc import Mapping, Sequence
from typing import Any

from h2htalk_metric.reports.table import Cell, Column, Row, ends, numbers, shown
from h2htalk_metric.stats.intervals import Interval

Result = Mapping[str, Any]
"""The content of a result file, see the functions that measure a probe."""

LEVEL = 0.05
"""Of significance."""
_MOST_REASONS = 5
METHOD = (
    "Intervals are 95% from Student's t with cluster-robust standard errors; p-values are from random sign flips of "
    "whole clusters; clusters are scenarios. If all clusters have the same rate of 0 or 1, the interval is Clopper and "
    "Pearson's. Unscored answers are left out. * p (Holm) < 0.05."
)
_LARGEST = "largest detectable"
DETECTABLE_NOTE = (
    f"{_LARGEST.capitalize()}: a test finds a difference of this size to another run in every row whose values "
    "vary between clusters (80% power, 5% level) if the errors of the two runs are independent. Paired tests usually "
    "find smaller ones."
)
NOBODY = "No judge and no person has marked these answers yet."

TEST_COLUMNS = (*numbers("items", "difference", "95% interval", "detectable", "p", "p (Holm)"), Column("", "text"))


def test_cells(test: Mapping[str, Any], form: str, factor: float = 1) -> list[str]:
    """Items, difference, interval, detectable difference, p, corrected p, and a star where it is significant."""
    interval, corrected = interval_of(test, factor, value="difference"), test.get("p_holm")
    return [
        str(test["items"]),
        shown(interval.value, f"+{form}"),
        ends(interval, f"+{form}"),
        detectable_cell(test, form, factor),
        f"{test['p']:.4f}",
        shown(corrected, ".4f"),
        "*" if corrected is not None and corrected < LEVEL else "",
    ]


def marked_lines(source: str, counts: Mapping[str, Any], num_answers: int) -> list[str]:
    """Who marked how many answers, and why answers are unscored."""
    single = f", {counts['single']} by one person only" if counts["single"] else ""
    presented = num_presented(counts)
    sample = f", a sample of {presented} of {num_answers}" if presented < num_answers else ""
    marked_by = f"{source} ({', '.join(counts['by'])})"
    lines = [f"{marked_by}: {counts['scored']} scored, {counts['unscored']} unscored{single}{sample}"]
    reasons = list(counts["reasons"].items())[:_MOST_REASONS]
    return lines + [f"unscored by {source}, {times}: {reason[:200]}" for reason, times in reasons]


def num_presented(counts: Mapping[str, Any]) -> int:
    """How many answers a source was asked to mark; people may get a sample."""
    return int(counts["scored"] + counts["unscored"])


def value_cell(one: Mapping[str, Any] | None, form: str, factor: float = 1, mark: str = "") -> Cell:
    """A value with its interval; a dash if there is none."""
    if one is None:
        return "-"
    interval = interval_of(one, factor)
    return f"{interval.value:{form}}{mark}", ends(interval, form)


def detectable_cell(one: Mapping[str, Any], form: str, factor: float = 1) -> str:
    """The smallest detectable difference; a dash in results of earlier versions, which lack it."""
    value = one.get("detectable")
    return "-" if value is None else format(factor * value, form)


def detectable_row(columns: Sequence[Sequence[Mapping[str, Any] | None]], form: str, factor: float = 1) -> list[Row]:
    """The last row of a table of values: per column the largest detectable difference of its rows.

    Args:
        columns: of figures, one list per column after the first; empty for columns of other content.
        form: of the numbers.
        factor: by which the table multiplies the values.

    Returns:
        No row if no figure has one, for instance in results of earlier versions.

    """
    values = [[one["detectable"] for one in column if one and one.get("detectable") is not None] for column in columns]
    if not any(values):
        return []
    return [Row((_LARGEST, *(format(factor * max(of), form) if of else "" for of in values)))]


def interval_of(one: Mapping[str, Any], factor: float = 1, value: str = "value") -> Interval:
    """An interval as JSON holds it, where undefined ends are null."""
    return Interval(*(math.nan if one[key] is None else factor * one[key] for key in (value, "low", "high")))
