"""The panel's scores of a run, joined with the composite: J (Eq. 3) and flags (Eq. 4), without people's scores."""

__all__ = ["composites_of", "panel_scores"]

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.judge.blend import flagged
from h2htalk_metric.judge.judge_items import JudgeItem, judge_items
from h2htalk_metric.judge.judgement import Judgement, unscored_reason, valid_judgements
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.runs.run import Run, cached_per_run
from h2htalk_metric.runs.scoring import read_scores


@cached_per_run
def panel_scores(run: Run) -> pd.DataFrame:
    """One row per judged answer of a scored run; without a panel, no row has scores.

    Columns: id, task, relationship, composite (S, 0..1), judge_score (J_judge, the panel's mean, 0..5), judge_range
    (highest minus lowest judge), position_bias, unscored (why the panel has no score, or None), j_with_judge (J, 0..5),
    and flagged (j_with_judge < tau). Missing numbers are NaN.

    Args:
        run: a scored run with judged tasks, or its folder.

    Raises:
        H2HTalkError: the run is not scored, not complete, or has no judged task.

    """
    panel = Panel.read(run.path) or Panel(())
    items = judge_items(run)
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
    return pd.DataFrame(rows)


def composites_of(run: Run) -> pd.DataFrame:
    """S of the answers of a scored run that enter J. Columns: id, task, relationship, composite (0..1)."""
    scores = read_scores(run).items
    is_judged = scores["task"].map(lambda task: TASKS[task].judged)
    return scores.loc[is_judged, ["id", "task", "relationship", "composite"]].reset_index(drop=True)


def _scores(item: JudgeItem, composite: float, judgements: Sequence[Judgement], panel: Panel) -> dict[str, Any]:
    row: dict[str, Any] = {
        "composite": composite,
        "judge_score": np.nan,
        "judge_range": np.nan,
        "position_bias": np.nan,
        "unscored": unscored_reason(judgements),
        "j_with_judge": np.nan,
        "flagged": False,
    }
    scores = [one.score for one in judgements if one.score is not None]
    if not scores or row["unscored"]:
        return row
    j = panel.j(composite, fmean(scores))
    biases = [one.position_bias for one in judgements if one.position_bias is not None]
    row |= {"judge_score": fmean(scores), "judge_range": max(scores) - min(scores)}
    row["position_bias"] = fmean(biases) if biases else np.nan
    return row | {"j_with_judge": j, "flagged": flagged(j, panel.tau)}
