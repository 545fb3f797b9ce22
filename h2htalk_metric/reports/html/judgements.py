"""What judges and people said of a run's items, as the page shows it."""

__all__ = ["JUDGED_FIGURES", "JUDGED_FLAGS", "add_judgements"]

from collections.abc import Sequence
from typing import Any

import pandas as pd

from h2htalk_metric.judge.judged_run import JudgedRun
from h2htalk_metric.metrics.tokenizers import clean
from h2htalk_metric.reports.html.items import Item

JUDGED_FIGURES = {"J": "j", "J_judge": "judge", "people": "human"}
"""The figures of a judged item, 0..5, and the columns of :class:`JudgedRun` that hold them."""

JUDGED_FLAGS = ("flagged", "unscored", "reviewed")
"""What a judged item may be flagged with besides."""


def add_judgements(items: Sequence[Item], judged: JudgedRun) -> None:
    """Give every item :data:`JUDGED_FIGURES`, `marks` and `why` as text, and add :data:`JUDGED_FLAGS` to its flags.

    `marks` holds a line a judge, `why` a line a reason; all are "" where an item is not for judges or people.
    """
    rows = {row["id"]: row for row in judged.items.to_dict("records")}
    said = {identity: lines.to_dict("records") for identity, lines in judged.marks.groupby("id")}
    for item in items:
        item.update(dict.fromkeys((*JUDGED_FIGURES, "marks", "why"), ""))
        if row := rows.get(item["id"]):
            item.update(_judgement(row, said.get(item["id"], [])))
            held = zip(JUDGED_FLAGS, (row["flagged"], _there(row["unscored"]), _there(row["human"])), strict=True)
            item["flags"] += [flag for flag, holds in held if holds]


def _judgement(row: dict[str, Any], said: Sequence[dict[str, Any]]) -> dict[str, str]:
    figures = {name: f"{row[column]:.2f}" if _there(row[column]) else "–" for name, column in JUDGED_FIGURES.items()}
    marks = [f"{line['judge']}: {_marks(line['verdict'])}" for line in said]
    marks += [f"unscored: {row['unscored']}"] if _there(row["unscored"]) else []
    marks += ["people, and no judge"] if not marks and _there(row["human"]) else []
    why = [
        f"{line['judge']}, {position.replace('_', ' ')}: {reason}"
        for line in said
        for position, reasons in line["why"].items()
        for reason in reasons
    ]
    return figures | {"marks": _lines(marks), "why": _lines(why)}


def _marks(verdict: dict[str, float]) -> str:
    return " · ".join(f"{criterion.replace('_', ' ')} {round(mark, 2):g}" for criterion, mark in verdict.items())


def _lines(texts: Sequence[str]) -> str:
    """A line each: with a line break of its own one text could pass for two."""
    return "\n".join(" ".join(clean(text).split()) for text in texts)


def _there(value: Any) -> bool:
    return not pd.isna(value)
