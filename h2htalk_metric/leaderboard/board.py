"""What a board shows: rows in Table 2's layout, the best of each bracket, who is statistically tied; and its CSV.

There are two boards, the paper's and this project's runs, and no function that takes rows of both.
"""

__all__ = [
    "LAYOUT",
    "BoardRow",
    "best_of_brackets",
    "paper_board",
    "run_board",
    "setups",
    "table_payload",
    "tied_groups",
    "to_csv",
]

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from h2htalk_datasets.prompts import SAP
from h2htalk_datasets.tasks import DIMENSIONS, TASKS
from h2htalk_metric.aggregate import OVERALL
from h2htalk_metric.leaderboard.admission import COMPLETE, Row
from h2htalk_metric.leaderboard.paper import BRACKETS, published_rows
from h2htalk_metric.leaderboard.storage import Storage
from h2htalk_metric.semantic import DEFAULT_EMBEDDER

LAYOUT: dict[str, str] = {
    cell: dimension
    for dimension in DIMENSIONS
    for cell in [*(task.name for task in TASKS.values() if task.dimension == dimension), f"{dimension}Avg"]
} | {OVERALL: ""}
"""The columns of Table 2 in its order, each with its dimension."""

_BEST = 3
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class BoardRow:
    """A row of either board.

    Attributes:
        key: unique on its board.
        model: its name, untrusted.
        bracket: of its size.
        cells: figures 0..100, or None where unknown, by the names of :data:`LAYOUT`.
        intervals: 95% interval by cell name, where known.
        tied: letter of its group of statistically tied rows, or "".
        notes: what must be known of it.
        claimed: whether its SS is the sender's, not recomputed by the board.

    """

    key: str
    model: str
    bracket: str
    cells: Mapping[str, float | None]
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    tied: str = ""
    notes: tuple[str, ...] = ()
    claimed: bool = False

    @property
    def whole(self) -> bool:
        """Whether every figure is known."""
        return all(self.cells[cell] is not None for cell in LAYOUT)


def paper_board() -> list[BoardRow]:
    """The paper's rows as published."""
    return [
        BoardRow(
            f"paper-{place}",
            row.model,
            row.bracket,
            row.cells,
            notes=() if _whole(row.cells) else ("other cells unknown",),
        )
        for place, row in enumerate(published_rows())
    ]


def setups(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows that may be ranked against each other: same embedder, same records.

    Returns:
        A title and its rows; whole runs first, BGE-M3 first among them, then by number of rows.

    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.setup.values()), []).append(row)
    order = sorted(
        groups.values(),
        key=lambda group: (group[0].partial, group[0].setup["embedder"] != DEFAULT_EMBEDDER, -len(group)),
    )
    return {_title(group[0]): group for group in order}


def run_board(rows: Sequence[Row], storage: Storage) -> list[BoardRow]:
    """Rows of one setup, with their groups of ties."""
    ties = tied_groups({row.digest: (row.cells[OVERALL], storage.draws(row.digest)) for row in rows})
    return [
        BoardRow(
            row.digest,
            row.model,
            row.bracket,
            row.cells,
            row.intervals,
            ties.get(row.digest, ""),
            _notes(row),
            row.ss == "claimed",
        )
        for row in rows
    ]


def tied_groups(overalls: Mapping[str, tuple[float | None, np.ndarray]]) -> dict[str, str]:
    """Letters of groups that are statistically tied in Overall.

    The best row leads group A. Every row from it downwards is in A until one whose paired 95% bootstrap interval of
    the difference from the leader leaves out 0; that one leads B, and so on.

    Args:
        overalls: Overall, and its resamples of shape (resamples,) drawn with one seed, by key.

    Returns:
        A letter by key; rows without Overall have none.

    """
    ranked = sorted(
        ((value, key, draws) for key, (value, draws) in overalls.items() if value is not None),
        key=lambda entry: -entry[0],
    )
    letters: dict[str, str] = {}
    leader, group = None, -1
    for _, key, draws in ranked:
        # The difference's lower 2.5% point above 0: the leader is really ahead.
        if leader is None or float(np.mean(leader - draws <= 0)) < 0.025:
            leader, group = draws, group + 1
        letters[key] = _letter(group)
    return letters


def differences(rows: Sequence[BoardRow], storage: Storage) -> list[tuple[str, float, float, float]]:
    """Overall of each further row minus the first's: model, difference, ends of its paired 95% bootstrap interval."""
    first, *others = [row for row in rows if row.cells[OVERALL] is not None]
    gaps = []
    for row in others:
        low, high = np.percentile(storage.draws(row.key) - storage.draws(first.key), [2.5, 97.5])
        gaps.append((row.model, (row.cells[OVERALL] or 0) - (first.cells[OVERALL] or 0), float(low), float(high)))
    return gaps


def best_of_brackets(rows: Sequence[BoardRow]) -> dict[str, dict[str, int]]:
    """Places 1 to 3 of each bracket and column, by key and cell; equal figures share a place.

    Only whole rows count: where single cells of a model are known, its place is not.
    """
    places: dict[str, dict[str, int]] = {row.key: {} for row in rows}
    for bracket in {row.bracket for row in rows}:
        whole = [row for row in rows if row.bracket == bracket and row.whole]
        for cell in LAYOUT:
            figures = sorted((_shown(row, cell) for row in whole), reverse=True)
            best = {figure: 1 + figures.index(figure) for figure in figures[:_BEST]}
            for row in whole:
                if _shown(row, cell) in best:
                    places[row.key][cell] = best[_shown(row, cell)]
    return places


def table_payload(rows: Sequence[BoardRow], *, links: bool) -> dict[str, Any]:
    """What the page's table draws, as JSON: figures rounded to two decimals, texts as they are (the page escapes)."""
    marks = best_of_brackets(rows)
    return {
        "columns": [
            {"name": cell, "short": _short(cell), "dimension": dimension, "n": _count(cell)}
            for cell, dimension in LAYOUT.items()
        ],
        "brackets": [bracket for bracket in BRACKETS if any(row.bracket == bracket for row in rows)],
        "rows": [
            {
                "model": row.model,
                "link": f"run?id={row.key}" if links else None,
                "bracket": row.bracket,
                "cells": [_rounded(row.cells[cell]) for cell in LAYOUT],
                "low": [_rounded(row.intervals[cell][0]) if cell in row.intervals else None for cell in LAYOUT],
                "high": [_rounded(row.intervals[cell][1]) if cell in row.intervals else None for cell in LAYOUT],
                "marks": [marks[row.key].get(cell, 0) for cell in LAYOUT],
                "tied": row.tied,
                "notes": row.notes,
                "claimed": row.claimed,
            }
            for row in rows
        ],
    }


def to_csv(rows: Sequence[BoardRow]) -> str:
    """A board as CSV, best Overall first; a text that a spreadsheet would run as a formula gets an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out)
    intervals = [f"{cell} {end}" for cell in LAYOUT for end in ("low", "high") if any(row.intervals for row in rows)]
    writer.writerow(["model", "bracket", *LAYOUT, "tied", "ss", "notes", *intervals])
    for row in sorted(rows, key=lambda row: -(row.cells[OVERALL] or 0)):
        figures = ["" if row.cells[cell] is None else f"{row.cells[cell]:.2f}" for cell in LAYOUT]
        ends = [f"{row.intervals[c][i]:.2f}" if c in row.intervals else "" for c in LAYOUT for i in (0, 1)]
        texts = [
            _inert(text)
            for text in (row.model, row.bracket, row.tied, "claimed" if row.claimed else "", "; ".join(row.notes))
        ]
        writer.writerow([*texts[:2], *figures, *texts[2:], *(ends if intervals else [])])
    return out.getvalue()


def _inert(text: str) -> str:
    return f"'{text}" if text.lstrip().startswith(_FORMULA) or text.startswith(_FORMULA) else text


def _shown(row: BoardRow, cell: str) -> float:
    """A figure as the table shows it, so that what looks equal is equal."""
    return round(row.cells[cell] or 0.0, 2)


def _whole(cells: Mapping[str, float | None]) -> bool:
    return None not in cells.values()


def _title(row: Row) -> str:
    part = f" of {COMPLETE:,} (partial)" if row.partial else ""
    return f"SS by {row.setup['embedder']}, {row.n:,} records{part}, dataset {row.setup['dataset']}"


def _notes(row: Row) -> tuple[str, ...]:
    notes = [f"partial: {row.n:,} of {COMPLETE:,} records"] if row.partial else []
    if set(row.sap) != set(SAP):
        notes.append("no SAP" if not row.sap else f"{len(row.sap)} of {len(SAP)} SAP principles")
    return tuple(notes)


def _short(cell: str) -> str:
    return cell.removeprefix(LAYOUT[cell]).replace("Initialization", "Init.") if LAYOUT[cell] else cell


def _count(cell: str) -> int | None:
    return TASKS[cell].count if cell in TASKS else None


def _letter(group: int) -> str:
    rest, last = divmod(group, len(_LETTERS))
    return (_letter(rest - 1) if rest else "") + _LETTERS[last]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
