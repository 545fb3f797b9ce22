"""Runs in several languages: their scores next to each other, and the gap between two languages."""

__all__ = ["languages"]

import math
from collections.abc import Mapping
from itertools import combinations

from h2htalk_datasets.languages import LANGUAGES
from h2htalk_datasets.tasks import DIMENSIONS, TASKS
from h2htalk_metric.reports.rendering import dimension_of
from h2htalk_metric.reports.table import Column, Row, Section, Table, ends, shown
from h2htalk_metric.runs.scoring import RunScores
from h2htalk_metric.stats.aggregate import AVERAGES, OVERALL
from h2htalk_metric.stats.intervals import Interval

_CELLS = [
    cell
    for dimension, average in zip(DIMENSIONS, AVERAGES, strict=True)
    for cell in (*(task for task in TASKS if TASKS[task].dimension == dimension), average)
] + [OVERALL]


def languages(scores: Mapping[str, RunScores]) -> Section:
    """The scores of a run's languages side by side, and the gap between every two of them.

    Args:
        scores: by code of the language.

    """
    intro = (
        "Each language has its own records, prompts and tokens, so S is never averaged over languages. A difference of "
        "S between two languages is not only the model's: Chinese is cut into words by jieba, English by spaces, and "
        "other references are matched. Compare the gap of one model with that of another over the same records."
    )
    pairs = [_gaps(one, other, scores) for one, other in combinations(scores, 2)]
    return Section("languages", "Languages", (intro, _side_by_side(scores), *pairs))


def _side_by_side(scores: Mapping[str, RunScores]) -> Table:
    columns, cells = [Column("config", "text")], {cell: [cell] for cell in _CELLS}
    for code, of_language in scores.items():
        name = LANGUAGES[code].native_name
        columns += [Column(f"{name}: n", narrow=False), Column(f"{name}: S"), Column("95% interval", narrow=False)]
        columns += [Column(f"{name}: format", narrow=False)]
        intervals, lines = of_language.intervals(), of_language.by_task().to_dict("index")
        for cell, row in cells.items():
            line, interval = lines.get(cell), intervals.get(cell)
            row += [str(int(line["n"])) if line else "", shown(interval.value if interval else None)]
            row += [ends(interval, ".1f"), f"{100 * line['format_rate']:.0f}%" if line else ""]
    rows = tuple(
        Row(tuple(row), dimension_of(cell), emphasized=cell not in TASKS)
        for cell, row in cells.items()
        if any(cell in of_language.intervals() for of_language in scores.values())
    )
    notes = ("Format: share of answers that follow the format and the limit of length of their task.",)
    return Table("S times 100 by language", tuple(columns), rows, notes)


def _gaps(one: str, other: str, scores: Mapping[str, RunScores]) -> Table:
    first, second = scores[one].intervals(), scores[other].intervals()
    rates = [scores[code].by_task()["format_rate"] for code in (one, other)]
    rows = []
    for cell in _CELLS:
        if cell in first and cell in second:
            gap = _difference(first[cell], second[cell])
            format_gap = f"{100 * (rates[1][cell] - rates[0][cell]):+.0f}" if cell in TASKS else ""
            values = (cell, f"{gap.value:+.2f}", ends(gap, "+.1f"), format_gap)
            rows.append(Row(values, dimension_of(cell), emphasized=cell not in TASKS))
    names = [LANGUAGES[code].name for code in (one, other)]
    return Table(
        f"{names[1]} minus {names[0]}",
        (
            Column("config", "text"),
            Column("gap of S"),
            Column("95% interval"),
            Column("gap of format, points", narrow=False),
        ),
        tuple(rows),
        notes=(
            "The records of the two languages are different ones, so the intervals of both enter: the half-widths are "
            "added in quadrature.",
        ),
    )


def _difference(first: Interval, second: Interval) -> Interval:
    """Second minus first, of independent records."""
    value = second.value - first.value
    half = math.hypot(*((interval.high - interval.low) / 2 for interval in (first, second)))
    return Interval(value, value - half, value + half)
