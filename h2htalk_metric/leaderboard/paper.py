"""The paper's Table 2 as published: 35 legible rows, and single cells of three more models that its text states."""

__all__ = ["BRACKETS", "CITATION", "URL", "PublishedRow", "published_rows"]

import csv
from dataclasses import dataclass
from pathlib import Path

from h2htalk_metric.stats.aggregate import CELLS

_FOLDER = Path(__file__).parent / "paper"

BRACKETS = ("0-1B", "1-8B", "8-31B", "32B+", "specialized", "proprietary")
"""Size brackets by number of parameters: those of Table 2 in its order, and one for smaller models than it has."""

CITATION = "H2HTalk: Evaluating Large Language Models as Emotional Companion, Table 2, arXiv:2507.03543"
URL = "https://arxiv.org/abs/2507.03543"


@dataclass(frozen=True)
class PublishedRow:
    """One model of Table 2.

    Attributes:
        model: name as printed.
        bracket: one of :data:`BRACKETS`.
        cells: S times 100 by cell name; None if the cell is not published legibly.

    """

    model: str
    bracket: str
    cells: dict[str, float | None]


def published_rows() -> list[PublishedRow]:
    """All published rows, complete ones first."""
    rows = [
        PublishedRow(line["model"], line["bracket"], {cell: float(line[cell]) for cell in CELLS})
        for line in _read("table2.csv")
    ]
    partial: dict[str, PublishedRow] = {}
    for line in _read("table2_partial.csv"):
        row = partial.setdefault(line["model"], PublishedRow(line["model"], line["bracket"], dict.fromkeys(CELLS)))
        row.cells[line["column"]] = float(line["value"])
    return [*rows, *partial.values()]


def _read(name: str) -> list[dict[str, str]]:
    with (_FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
