"""The comparison of a few chosen rows: their radar, and their differences in Overall."""

__all__ = ["choices", "comparison"]

import math
from collections import Counter
from collections.abc import Sequence
from html import escape

from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.leaderboard.board import LAYOUT, BoardRow, detectable_difference, overall_difference
from h2htalk_metric.reports.svg import MAX_RADAR_LINES, radar
from h2htalk_metric.stats.aggregate import OVERALL
from h2htalk_metric.stats.intervals import Interval


def choices(rows: Sequence[BoardRow]) -> list[tuple[str, str]]:
    """Name and key of each row; a name that several rows have gets the start of the key."""
    uses = Counter(row.model for row in rows)
    return [(row.model if uses[row.model] == 1 else f"{row.model} ({row.key[:6]})", row.key) for row in rows]


def comparison(rows: Sequence[BoardRow], keys: Sequence[str]) -> str:
    """The radar of the chosen rows and the difference of each from the first in Overall, as HTML.

    Args:
        rows: of one board.
        keys: of the chosen rows, in order; the first :data:`~h2htalk_metric.reports.svg.MAX_RADAR_LINES` count.

    """
    names, by_key = {key: name for name, key in choices(rows)}, {row.key: row for row in rows}
    chosen = [by_key[key] for key in keys[:MAX_RADAR_LINES] if key in by_key]
    if not chosen:
        return ""
    lines = {names[row.key]: _radar_values(row) for row in chosen}
    figure = radar(lines, "S times 100 per config") or "<p>A radar needs at least three configs.</p>"
    return f'<div class="h2h">{figure}<div class="plain">{_differences(chosen)}</div></div>'


def _radar_values(row: BoardRow) -> dict[tuple[str, str], Interval]:
    return {
        (dimension, cell.removeprefix(dimension)): Interval(value, math.nan, math.nan)
        for cell, dimension in LAYOUT.items()
        if cell in TASKS and (value := row.cells[cell]) is not None
    }


def _differences(chosen: Sequence[BoardRow]) -> str:
    first, *others = chosen
    lines = ""
    for row in others:
        if first.sums is None or row.sums is None or OVERALL not in first.intervals or OVERALL not in row.intervals:
            continue
        value, low, high = overall_difference(row.sums, first.sums)
        detectable = detectable_difference(row.sums, first.sums)
        numbers = (f"{value:+.2f}", f"{low:+.2f} to {high:+.2f}", f"detectable {detectable:.2f}")
        lines += f"<tr><th>{escape(row.model)}</th>{''.join(f'<td>{number}</td>' for number in numbers)}</tr>"
    if not lines:
        return ""
    return (
        f"<p>Overall minus that of {escape(first.model)}, with the paired 95% interval, clustered by relationship, and "
        "the smallest true difference that this comparison detects (80% power, 5% level)</p>"
        f'<table class="facts">{lines}</table>'
    )
