"""What a board shows: rows in Table 2's layout, the best of each bracket and who can't be told from it; and its CSV.

There are two boards, the paper's and this project's runs, and no function that takes rows of both.
"""

__all__ = [
    "LAYOUT",
    "BoardRow",
    "best_of_brackets",
    "differences",
    "paper_board",
    "run_board",
    "setups",
    "table_payload",
    "tied_with_first",
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
from h2htalk_metric.leaderboard.admission import COMPLETE, Row
from h2htalk_metric.leaderboard.paper import BRACKETS, published_rows
from h2htalk_metric.leaderboard.storage import Storage
from h2htalk_metric.metrics.similarity import DEFAULT_EMBEDDER
from h2htalk_metric.review.sheet import safe
from h2htalk_metric.stats.aggregate import OVERALL

LAYOUT: dict[str, str] = {
    cell: dimension
    for dimension in DIMENSIONS
    for cell in [*(task.name for task in TASKS.values() if task.dimension == dimension), f"{dimension}Avg"]
} | {OVERALL: ""}
"""The columns of Table 2 in its order, each with its dimension."""

_BEST = 3


@dataclass(frozen=True)
class BoardRow:
    """A row of either board.

    Attributes:
        key: unique on its board.
        model: its name, untrusted.
        bracket: of its size.
        cells: figures 0..100, or None where unknown, by the names of :data:`LAYOUT`.
        intervals: 95% interval by cell name, where known.
        tied: whether it is statistically tied in Overall with the first of its bracket, see :func:`tied_with_first`.
        notes: what must be known of it.
        claimed: whether its SS is the sender's, not recomputed by the board.
        placed: whether it takes part in places and ties; a board that recomputes SS places no claimed one.
        setup: the embedder, its revision and precision, and the dataset that it was scored with; empty on the paper's
            board.

    """

    key: str
    model: str
    bracket: str
    cells: Mapping[str, float | None]
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    tied: bool = False
    notes: tuple[str, ...] = ()
    claimed: bool = False
    placed: bool = True
    setup: Mapping[str, str] = field(default_factory=dict)

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
    """Rows that may be ranked against each other: same embedder, weights and precision, same records.

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
    titles: dict[str, list[Row]] = {}
    for group in order:
        title = _title(group[0])
        titles[title if title not in titles else f"{title} [{len(titles)}]"] = group  # a sender names the embedder
    return titles


def run_board(rows: Sequence[Row], storage: Storage) -> list[BoardRow]:
    """Rows of one setup, with their ties."""
    placed = {row.digest for row in rows if row.ss == "recomputed" or not storage.recompute_ss}
    tied: set[str] = set()
    for bracket in BRACKETS:
        known = [row for row in rows if row.bracket == bracket and row.digest in placed]
        tied |= tied_with_first({row.digest: (row.cells[OVERALL], storage.draws(row.digest)) for row in known})
    return [
        BoardRow(
            row.digest,
            row.model,
            row.bracket,
            row.cells,
            row.intervals,
            row.digest in tied,
            _notes(row),
            row.ss == "claimed",
            row.digest in placed,
            row.setup,
        )
        for row in rows
    ]


def tied_with_first(overalls: Mapping[str, tuple[float | None, np.ndarray]]) -> set[str]:
    """The rows whose paired 95% bootstrap interval of the difference in Overall from the best row holds 0.

    It says nothing of two rows neither of which is the best: both can be tied with it and yet differ from each other,
    and one further down can be tied where one above it is not. :func:`differences` tells any two apart.

    Args:
        overalls: Overall, and its resamples of shape (resamples,) drawn with one seed, by key.

    Returns:
        Keys, without the best row's own; rows without Overall or resamples are left out.

    """
    known = {key: (value, draws) for key, (value, draws) in overalls.items() if value is not None and draws.size}
    if not known:
        return set()
    first = max(known, key=lambda key: known[key][0])
    best = known[first][1]
    # The interval's lower end is at most 0: the first is not really ahead.
    return {key for key, (_, draws) in known.items() if key != first and float(np.mean(best - draws <= 0)) >= 0.025}


def differences(rows: Sequence[BoardRow], storage: Storage) -> list[tuple[str, float, float, float]]:
    """Overall of each further row minus the first's: model, difference, ends of its paired 95% bootstrap interval.

    Rows without Overall or an interval of it are left out; fewer than two can't be compared.
    """
    known = [(row, value) for row in rows if (value := row.cells[OVERALL]) is not None and OVERALL in row.intervals]
    gaps = []
    for row, value in known[1:]:
        first, best = known[0]
        draws, others = storage.draws(row.key), storage.draws(first.key)
        if draws.size and others.size:
            low, high = np.percentile(draws - others, [2.5, 97.5])
            gaps.append((row.model, value - best, float(low), float(high)))
    return gaps


def best_of_brackets(rows: Sequence[BoardRow]) -> dict[str, dict[str, int]]:
    """Places 1 to 3 of each bracket and column, by key and cell; equal figures share a place.

    Only whole rows count, and those that take part: where single cells of a model are known, its place is not.
    """
    places: dict[str, dict[str, int]] = {row.key: {} for row in rows}
    for bracket in {row.bracket for row in rows}:
        whole = [row for row in rows if row.bracket == bracket and row.whole and row.placed]
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
    """A board as CSV, best Overall first; a text that a spreadsheet would run as a formula gets an apostrophe.

    Every field is quoted, so that a spreadsheet that cuts at semicolons cuts none into two.
    """
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    intervals = [f"{cell} {end}" for cell in LAYOUT for end in ("low", "high") if any(row.intervals for row in rows)]
    setup = ["embedder", "revision", "precision", "dataset"]
    facts = ["tied with first", "ss", *setup, "notes"]
    writer.writerow(["model", "bracket", *LAYOUT, *facts, *intervals])
    for row in sorted(rows, key=lambda row: -(row.cells[OVERALL] or 0)):
        figures = ["" if row.cells[cell] is None else f"{row.cells[cell]:.2f}" for cell in LAYOUT]
        ends = [f"{row.intervals[c][i]:.2f}" if c in row.intervals else "" for c in LAYOUT for i in (0, 1)]
        known = [row.setup.get(key, "") for key in setup]
        marks = ["yes" if row.tied else "", "claimed" if row.claimed else ""]
        texts = [safe(text) for text in (row.model, row.bracket, *marks, *known, "; ".join(row.notes))]
        writer.writerow([*texts[:2], *figures, *texts[2:], *(ends if intervals else [])])
    return out.getvalue()


def _shown(row: BoardRow, cell: str) -> float:
    """A figure as the table shows it, so that what looks equal is equal."""
    return round(row.cells[cell] or 0.0, 2)


def _whole(cells: Mapping[str, float | None]) -> bool:
    return None not in cells.values()


def _title(row: Row) -> str:
    """What the rows of a setup were scored with, for people."""
    part = f" of {COMPLETE:,} (partial)" if row.partial else ""
    weights = ", ".join(known for known in (row.setup["revision"][:12], row.setup["precision"]) if known)
    embedder = row.setup["embedder"] + (f" ({weights})" if weights else "")
    return f"SS by {embedder}, {row.n:,} records{part}, dataset {row.setup['dataset']}"


def _notes(row: Row) -> tuple[str, ...]:
    notes = [f"partial: {row.n:,} of {COMPLETE:,} records"] if row.partial else []
    if set(row.sap) != set(SAP):
        notes.append("no SAP" if not row.sap else f"{len(set(row.sap))} of {len(SAP)} SAP principles")
    return tuple(notes)


def _short(cell: str) -> str:
    return cell.removeprefix(LAYOUT[cell]).replace("Initialization", "Init.") if LAYOUT[cell] else cell


def _count(cell: str) -> int | None:
    return TASKS[cell].count if cell in TASKS else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
