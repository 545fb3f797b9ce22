"""The figures of a run: means with 95% intervals of S, of J, and of judges' scores."""

__all__ = ["JUDGE_SCORE", "Figure", "J", "Metric", "S", "figures_of"]

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pandas as pd

from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.export.results import RunResults
from h2htalk_metric.stats.aggregate import OVERALL
from h2htalk_metric.stats.intervals import Interval, mean_interval


class Metric(NamedTuple):
    """A score as the schema describes it; it begins at 0.

    Attributes:
        key: ends the id of a result.
        name: displayed.
        highest: possible score.
        unit: of the score.
        description: what it measures.

    """

    key: str
    name: str
    highest: int
    unit: str
    description: str


S = Metric(
    "s",
    "S",
    1,
    "proportion",
    "Composite S (Eq. 2): mean of BLEU-1 to BLEU-4, ROUGE-1, ROUGE-L and SS, the cosine of embeddings of answer and "
    "reference.",
)
J = Metric(
    "j",
    "J",
    5,
    "points",
    "J (Eq. 3): alpha times S on 0 to 5, plus 1 - alpha times the judges' mean score. If people scored an answer, "
    "their score replaces the judges'.",
)
JUDGE_SCORE = Metric("judge_score", "J_judge", 5, "points", "The judges' mean score. This config has no J.")


class Figure(NamedTuple):
    """A mean over answers.

    Attributes:
        cell: of a row of Table 2.
        metric: whose mean it is.
        interval: the mean with its 95% interval, on the metric's scale.
        n: number of answers.
        details: other figures of the same answers.

    """

    cell: str
    metric: Metric
    interval: Interval
    n: int
    details: Mapping[str, Any]


def figures_of(results: RunResults) -> list[Figure]:
    """S of each cell, J of each config of Eq. 3, and the judges' scores of other configs."""
    return [*_composites(results), *_judged(results)]


def _composites(results: RunResults) -> Iterator[Figure]:
    """S of every cell of the row of Table 2, with the intervals of the report."""
    tasks, intervals = results.scores.by_task().to_dict("index"), results.scores.intervals()
    row = {cell: value for cell, value in results.scores.row().items() if value is not None}
    for cell, value in row.items():
        interval = Interval(*(number / 100 for number in intervals[cell]))._replace(value=value / 100)
        if cell in tasks:
            figures = {name: figure for name, figure in tasks[cell].items() if name not in ("composite", "n")}
            yield Figure(cell, S, interval, tasks[cell]["n"], figures)
            continue
        dimension = cell.removesuffix("Avg")
        members = [task for task in tasks if cell == OVERALL or TASKS[task].dimension == dimension]
        mean = "weighted by Table 1's numbers of records" if cell == OVERALL else "unweighted"
        details = {"mean of": ", ".join(members), "weights": mean}
        yield Figure(cell, S, interval, sum(tasks[task]["n"] for task in members), details)


def _judged(results: RunResults) -> Iterator[Figure]:
    """J of the tasks of Eq. 3, and the judges' scores of other tasks."""
    if results.judged is not None:
        table = results.judged.by_task()
        yield from _means(results.judged.items, J, "j", {task: dict(table.loc[task]) for task in table.index})
    if results.other_judged is not None:
        rows = results.other_judged
        figures = {task: {"unscored": int(own["unscored"].count())} for task, own in rows.groupby("task")}
        yield from _means(rows, JUDGE_SCORE, "judge_score", figures)


def _means(
    rows: pd.DataFrame, metric: Metric, column: str, figures: Mapping[str, Mapping[str, Any]]
) -> Iterator[Figure]:
    for task, own in rows.groupby("task", sort=False):
        interval = mean_interval(own[column].to_numpy(), list(own["relationship"]), bounds=(0, metric.highest))
        if interval is not None:
            present = {key: float(value) for key, value in figures[str(task)].items() if not pd.isna(value)}
            yield Figure(str(task), metric, interval, int(own[column].count()), present)
