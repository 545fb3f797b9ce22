"""The panel's scores of a run, joined with the composite: J (Eq. 3) and flags (Eq. 4), without people's scores."""

__all__ = ["composites_of", "other_task_scores", "panel_scores"]

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.judge.judge_items import JUDGED_TASKS, JudgeItem, judge_items
from h2htalk_metric.judge.judgement import Judgement, judged_rubrics, unscored_reason, valid_judgements
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.runs.run import Run, cached_per_run
from h2htalk_metric.runs.scoring import read_scores


@cached_per_run
def panel_scores(run: Run, tasks: tuple[str, ...] = JUDGED_TASKS) -> pd.DataFrame:
    """One row per judged answer of a scored run; without a panel, no row has scores.

    Columns: id, task, relationship, composite (S, 0..1), s5 (S as it enters J, 0..5), judge_score (J_judge, the panel's
    mean, 0..5), judge_range (highest minus lowest judge), position_bias, unscored (why there is no score, or None),
    j_with_judge (J, 0..5), and flagged (see :meth:`h2htalk_metric.judge.panel.Panel.flags`). Missing numbers are NaN.

    Args:
        run: a scored run, or its folder.
        tasks: config names. Answers of tasks that do not enter Eq. 3 have no J.

    Raises:
        H2HTalkError: the run is not scored, not complete, or has none of the tasks; or S is by another embedder than
            the ceilings of the panel's scale.

    """
    panel = Panel.read(run.path) or Panel(())
    embedder = read_scores(run).signature["embedder"]
    if panel.scale.embedder not in (None, embedder):
        raise H2HTalkError(
            f"J of {run.path} is on a scale of ceilings by {panel.scale.embedder!r}, but S is by {embedder!r}; run "
            "h2htalk judge again"
        )
    items = judge_items(run, tasks)
    judgements = valid_judgements(run.path, items, panel)
    scores = read_scores(run).items.set_index("id")
    rows = [
        {
            "id": item.id,
            "task": item.rubric.name,
            "relationship": scores.loc[item.id, "relationship"],
            **_scores(item, float(scores.loc[item.id, "composite"]), judgements[item.id], panel),
        }
        for item in items
    ]
    table = pd.DataFrame(rows)
    return table.assign(flagged=panel.flags(table["j_with_judge"].to_numpy()))


@cached_per_run
def other_task_scores(run: Run) -> pd.DataFrame | None:
    """The rows of :func:`panel_scores` for judged tasks that do not enter Eq. 3; None if none was judged.

    Args:
        run: a scored run, or its folder.

    """
    judged = judged_rubrics(run.path) - set(JUDGED_TASKS)
    present = set(read_scores(run).items["task"])
    tasks = tuple(task for task in TASKS if task in judged & present)
    return panel_scores(run, tasks) if tasks and Panel.read(run.path) else None


def composites_of(run: Run) -> pd.DataFrame:
    """S of the answers of a scored run that enter J. Columns: id, task, relationship, composite (0..1)."""
    scores = read_scores(run).items
    is_judged = scores["task"].map(lambda task: TASKS[task].judged)
    return scores.loc[is_judged, ["id", "task", "relationship", "composite"]].reset_index(drop=True)


def _scores(item: JudgeItem, composite: float, judgements: Sequence[Judgement], panel: Panel) -> dict[str, Any]:
    in_eq_3 = item.rubric.name in JUDGED_TASKS
    row: dict[str, Any] = {
        "composite": composite,
        "s5": 5 * panel.scale.scaled(item.rubric.name, composite) if in_eq_3 else np.nan,
        "judge_score": np.nan,
        "judge_range": np.nan,
        "position_bias": np.nan,
        "unscored": unscored_reason(judgements),
        "j_with_judge": np.nan,
    }
    scores = [one.score for one in judgements if one.score is not None]
    if not scores or row["unscored"]:
        return row
    j = panel.j(item.rubric.name, composite, fmean(scores)) if in_eq_3 else np.nan
    biases = [one.position_bias for one in judgements if one.position_bias is not None]
    row |= {"judge_score": fmean(scores), "judge_range": max(scores) - min(scores)}
    row["position_bias"] = fmean(biases) if biases else np.nan
    return row | {"j_with_judge": j}
