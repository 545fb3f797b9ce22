"""What a board shows: rows in Table 2's layout, places and ties per bracket, and the CSV.

There are two boards, the paper's and this project's runs. No function takes rows of both.
"""

__all__ = [
    "LAYOUT",
    "BoardRow",
    "best_of_brackets",
    "board_csv",
    "by_scoring_config",
    "detectable_difference",
    "overall_difference",
    "paper_board",
    "run_board",
    "table_data",
    "tied_with_first",
]

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from h2htalk_datasets.languages import LANGUAGES
from h2htalk_datasets.prompts import SAP
from h2htalk_datasets.tasks import DIMENSIONS, TASKS
from h2htalk_metric.leaderboard.paper import BRACKETS, published_rows
from h2htalk_metric.leaderboard.row import Row
from h2htalk_metric.metrics.similarity import DEFAULT_EMBEDDER
from h2htalk_metric.reports.csv_text import csv_text
from h2htalk_metric.stats.aggregate import OVERALL
from h2htalk_metric.stats.clusters import ClusterSums
from h2htalk_metric.stats.intervals import (
    Interval,
    minimum_detectable_difference,
    standard_error,
    weighted_interval,
)

LAYOUT: dict[str, str] = {
    cell: dimension
    for dimension in DIMENSIONS
    for cell in [*(task.name for task in TASKS.values() if task.dimension == dimension), f"{dimension}Avg"]
} | {OVERALL: ""}
"""Cell name to dimension, in the column order of Table 2."""

_PLACES = 3


@dataclass(frozen=True)
class BoardRow:
    """A row of either board.

    Attributes:
        key: unique on its board.
        model: displayed name, untrusted.
        bracket: size bracket.
        cells: S times 100 by cell; None if not available.
        intervals: 95% interval by cell, where there is one.
        detectable: see :class:`h2htalk_metric.leaderboard.row.Row`.
        sums: of the run's items per relationship; None on the paper's board.
        tied: see :func:`tied_with_first`.
        notes: remarks below the name.
        claimed: whether SS is the sender's, not recomputed by the board.
        placed: whether it takes part in places and ties; a board that recomputes SS places no claimed one.
        scoring_config: see :class:`h2htalk_metric.leaderboard.row.Row`; empty on the paper's board.
        counts: records per config, where they are not those of Table 1.

    """

    key: str
    model: str
    bracket: str
    cells: Mapping[str, float | None]
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    detectable: Mapping[str, float] = field(default_factory=dict)
    sums: ClusterSums | None = None
    tied: bool = False
    notes: tuple[str, ...] = ()
    claimed: bool = False
    placed: bool = True
    scoring_config: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether every cell has a value."""
        return all(self.cells[cell] is not None for cell in LAYOUT)


def paper_board() -> list[BoardRow]:
    """The paper's rows as published."""
    return [
        BoardRow(
            f"paper-{number}",
            row.model,
            row.bracket,
            row.cells,
            notes=("other cells not published",) if None in row.cells.values() else (),
        )
        for number, row in enumerate(published_rows())
    ]


def by_scoring_config(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Group rows that may be ranked together: same language, embedder, weights and precision, same records.

    Returns:
        A title per group and its rows; English first, then full runs, among them BGE-M3 first, then larger groups.

    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.language, *row.scoring_config.values()), []).append(row)
    order = sorted(
        groups.values(),
        key=lambda group: (
            list(LANGUAGES).index(group[0].language),
            group[0].partial,
            group[0].scoring_config["embedder"] != DEFAULT_EMBEDDER,
            -len(group),
        ),
    )
    titles: dict[str, list[Row]] = {}
    for group in order:
        title = _title(group[0])
        titles[title if title not in titles else f"{title} [{len(titles)}]"] = group  # revisions are shortened
    return titles


def run_board(rows: Sequence[Row], *, recompute_ss: bool = False) -> list[BoardRow]:
    """Rows of one scoring config with their ties; `recompute_ss`: only rows whose SS was recomputed are placed."""
    placed = {row.digest for row in rows if row.ss == "recomputed" or not recompute_ss}
    tied: set[str] = set()
    for bracket in BRACKETS:
        tied |= tied_with_first(
            {row.digest: row.sums for row in rows if row.bracket == bracket and row.digest in placed}
        )
    return [
        BoardRow(
            key=row.digest,
            model=row.model,
            bracket=row.bracket,
            cells=row.cells,
            intervals=row.intervals,
            detectable=row.detectable,
            sums=row.sums,
            tied=row.digest in tied,
            notes=_notes(row),
            claimed=row.ss == "claimed",
            placed=row.digest in placed,
            scoring_config=row.scoring_config,
            counts={task: int(line["n"]) for task, line in row.tasks.items()} if row.language != "en" else {},
        )
        for row in rows
    ]


def tied_with_first(runs: Mapping[str, ClusterSums]) -> set[str]:
    """Keys of the runs whose paired 95% interval of Overall against the best run contains 0, without the best itself.

    It says nothing about two runs neither of which is the best: both can be tied with it and yet differ from each
    other. :func:`overall_difference` compares any two.

    Args:
        runs: sums by key, over the same records; runs without all eleven configs are left out.

    """
    overall = {key: sums.means @ sums.cells()[OVERALL] for key, sums in runs.items() if OVERALL in sums.cells()}
    if not overall:
        return set()
    best = max(overall, key=lambda key: overall[key])
    differences = {key: overall_difference(runs[best], runs[key]) for key in overall if key != best}
    return {key for key, difference in differences.items() if difference.low <= 0 <= difference.high}


def overall_difference(first: ClusterSums, second: ClusterSums) -> Interval:
    """First minus second in Overall, with its paired 95% interval, clustered by relationship.

    Args:
        first: sums over all eleven configs.
        second: of the same records.

    """
    difference = first.minus(second)
    return weighted_interval(difference, difference.cells()[OVERALL])


def detectable_difference(first: ClusterSums, second: ClusterSums) -> float:
    """Smallest true difference in Overall that the paired comparison finds with 80% power at 5%."""
    difference = first.minus(second)
    weights = difference.cells()[OVERALL]
    return minimum_detectable_difference(standard_error(difference, weights), difference.num_clusters(weights))


def best_of_brackets(rows: Sequence[BoardRow]) -> dict[str, dict[str, int]]:
    """Places 1 to 3 per bracket and cell, by key and cell; figures that are displayed alike share a place.

    Only complete rows that are placed count: a model with single cells has no place.
    """
    places: dict[str, dict[str, int]] = {row.key: {} for row in rows}
    for bracket in {row.bracket for row in rows}:
        ranked = [row for row in rows if row.bracket == bracket and row.complete and row.placed]
        for cell in LAYOUT:
            figures = sorted((_rounded(row.cells[cell]) or 0.0 for row in ranked), reverse=True)
            best = {figure: 1 + figures.index(figure) for figure in figures[:_PLACES]}
            for row in ranked:
                if (place := best.get(_rounded(row.cells[cell]) or 0.0)) is not None:
                    places[row.key][cell] = place
    return places


def table_data(rows: Sequence[BoardRow], *, links: bool) -> dict[str, Any]:
    """The data of the page's table: figures rounded to two decimals, texts unchanged (the page escapes them)."""
    places = best_of_brackets(rows)
    return {
        "columns": [
            {"name": cell, "short": _short(cell), "dimension": dimension, "n": _count(cell, rows)}
            for cell, dimension in LAYOUT.items()
        ],
        "brackets": [bracket for bracket in BRACKETS if any(row.bracket == bracket for row in rows)],
        "rows": [
            {
                "model": row.model,
                "link": f"run?id={row.key}" if links else None,
                "bracket": row.bracket,
                "cells": [_rounded(row.cells[cell]) for cell in LAYOUT],
                "low": [_end(row, cell, 0) for cell in LAYOUT],
                "high": [_end(row, cell, 1) for cell in LAYOUT],
                "places": [places[row.key].get(cell, 0) for cell in LAYOUT],
                "tied": row.tied,
                "notes": row.notes,
                "claimed": row.claimed,
            }
            for row in rows
        ],
    }


def board_csv(rows: Sequence[BoardRow]) -> str:
    """A board as CSV, best Overall first; see :func:`h2htalk_metric.reports.csv_text.csv_text`."""
    config = ("embedder", "revision", "precision", "dataset")
    columns = ["model", "bracket", *LAYOUT, "tied with first", "ss", *config, "notes"]
    if any(row.intervals for row in rows):
        columns += [f"{cell} {name}" for cell in LAYOUT for name in ("95% low", "95% high", "detectable")]
    lines = []
    for row in sorted(rows, key=lambda row: -(row.cells[OVERALL] or 0)):
        line = {"model": row.model, "bracket": row.bracket, "notes": "; ".join(row.notes)}
        line |= {cell: f"{value:.2f}" for cell, value in row.cells.items() if value is not None}
        line |= {"tied with first": "yes" if row.tied else "", "ss": "claimed" if row.claimed else ""}
        line |= {key: row.scoring_config.get(key, "") for key in config}
        for cell, ends in row.intervals.items():
            line |= {f"{cell} 95% {name}": f"{end:.2f}" for name, end in zip(("low", "high"), ends, strict=True)}
        line |= {f"{cell} detectable": f"{value:.2f}" for cell, value in row.detectable.items()}
        lines.append(line)
    return csv_text(columns, lines)


def _title(row: Row) -> str:
    partial = f" of {row.full_size:,} (partial)" if row.partial else ""
    config = row.scoring_config
    weights = ", ".join(part for part in (config["revision"][:12], config["precision"]) if part)
    embedder = config["embedder"] + (f" ({weights})" if weights else "")
    language = LANGUAGES[row.language]
    name = "" if language.code == "en" else f"{language.name} ({language.native_name}), "
    return f"{name}SS by {embedder}, {row.n:,} records{partial}, dataset {config['dataset']}"


def _notes(row: Row) -> tuple[str, ...]:
    notes = [f"partial: {row.n:,} of {row.full_size:,} records"] if row.partial else []
    if set(row.sap) != set(SAP):
        notes.append("no SAP" if not row.sap else f"{len(set(row.sap))} of {len(SAP)} SAP principles")
    return tuple(notes)


def _short(cell: str) -> str:
    return cell.removeprefix(LAYOUT[cell]).replace("Initialization", "Init.") if LAYOUT[cell] else cell


def _count(cell: str, rows: Sequence[BoardRow]) -> int | None:
    if cell not in TASKS:
        return None
    return rows[0].counts.get(cell, 0) if rows and rows[0].counts else TASKS[cell].count


def _rounded(value: float | None) -> float | None:
    """A figure as it is displayed."""
    return None if value is None else round(value, 2)


def _end(row: BoardRow, cell: str, end: int) -> float | None:
    return _rounded(row.intervals[cell][end]) if cell in row.intervals else None
