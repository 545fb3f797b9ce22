"""The paper's Table 2 as published: 35 legible rows, and single cells that its text states of three more models."""

__all__ = ["BRACKETS", "CITATION", "URL", "published_rows"]

import csv
from dataclasses import dataclass
from pathlib import Path

from h2htalk_metric.stats.bootstrap import CELLS

_FOLDER = Path(__file__).parent / "paper"

BRACKETS = ("1-8B", "8-31B", "32B+", "specialized", "proprietary")
"""The size brackets of Table 2, in its order."""

CITATION = "H2HTalk: Evaluating Large Language Models as Emotional Companion, Table 2, arXiv:2507.03543"
URL = "https://arxiv.org/abs/2507.03543"


@dataclass(frozen=True)
class PublishedRow:
    """One model of Table 2.

    Attributes:
        model: its name as printed.
        bracket: one of :data:`BRACKETS`.
        cells: cell name to figure, 0..100; None where it is not known.

    """

    model: str
    bracket: str
    cells: dict[str, float | None]


def published_rows() -> list[PublishedRow]:
    """All known rows, whole ones first; what is not known of a model stays None."""
    rows = []
    for line in _read("table2.csv"):
        rows.append(PublishedRow(line["model"], line["bracket"], {cell: float(line[cell]) for cell in CELLS}))
    partial: dict[str, PublishedRow] = {}
    for line in _read("table2_partial.csv"):
        row = partial.setdefault(line["model"], PublishedRow(line["model"], line["bracket"], dict.fromkeys(CELLS)))
        row.cells[line["column"]] = float(line["value"])
    return [*rows, *partial.values()]


def _read(name: str) -> list[dict[str, str]]:
    with (_FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
