"""A judged run: S, the judges' scores and people's scores in one table, with J (Eq. 3) and flags (Eq. 4)."""

__all__ = ["JudgedRun", "read_judged"]

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.judge.judge_items import JUDGED_TASKS, judge_items
from h2htalk_metric.judge.judgement import Judgement, valid_judgements
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.judge.panel_scores import panel_scores
from h2htalk_metric.judge.prompt import prompt_hash
from h2htalk_metric.review.scores import human_scores, stale_reasons
from h2htalk_metric.runs.run import Run, cached_per_run
from h2htalk_metric.runs.scoring import read_scores
from h2htalk_metric.stats.agreement import krippendorff_alpha


@dataclass(frozen=True)
class JudgedRun:
    """The answers of a scored run that judges or people score.

    Attributes:
        items: one row per judged answer: the columns of :func:`h2htalk_metric.judge.panel_scores.panel_scores`, and
            human_score (0..5) and j (J, 0..5; a person's score replaces the judge's). Missing numbers are NaN.
        judgements: the valid judgements that have scores.
        panel: who judges, and how; without judges if only people scored.
        signature: that of S, and what else J depends on; `people` is the number of answers with a human score.
        stale: reasons why saved marks of people do not count, with the number of items.

    """

    items: pd.DataFrame
    judgements: list[Judgement]
    panel: Panel
    signature: dict[str, Any]
    stale: dict[str, int]

    def by_task(self) -> pd.DataFrame:
        """One row per judged task.

        Columns: means of judge_score, position_bias, judge_range and j (0..5), s5 (of the items that have a j), and
        the counts n, with_j, unscored, flagged and reviewed.
        """
        grouped = self.items.groupby("task", sort=False)
        table = grouped[["judge_score", "position_bias", "judge_range", "j"]].mean()
        table["s5"] = self.items.dropna(subset="j").groupby("task")["s5"].mean()
        table["n"] = grouped.size()
        table["with_j"], table["unscored"] = grouped["j"].count(), grouped["unscored"].count()
        table["flagged"] = grouped["flagged"].sum()
        table["reviewed"] = grouped["human_score"].count()
        return table

    def values(self) -> dict[str, np.ndarray]:
        """J of the items that have one, by task, 0..5."""
        return self._by_task("j")

    def clusters(self) -> dict[str, np.ndarray]:
        """The relationship of the same items in the same order, by task."""
        return self._by_task("relationship")

    def reasons(self) -> dict[str, int]:
        """Why items are unscored, with the number of items, the most frequent first."""
        return self.items["unscored"].value_counts().to_dict()

    def panel_agreement(self) -> dict[str, float | None]:
        """Krippendorff's alpha (interval) among the judges: of their scores, and of each criterion by task."""
        if len(self.panel.judges) < 2:
            return {}
        alphas = {"score": _alpha(self.judgements, lambda one: one.score)}
        for task in dict.fromkeys(one.rubric for one in self.judgements):
            of_task = [one for one in self.judgements if one.rubric == task]
            for name in of_task[0].scores:
                alphas[f"{task} {name}"] = _alpha(of_task, lambda one, name=name: one.scores[name])  # type: ignore[misc]
        return alphas

    def _by_task(self, column: str) -> dict[str, np.ndarray]:
        with_j = self.items.dropna(subset="j")
        return {str(task): rows[column].to_numpy() for task, rows in with_j.groupby("task")}


@cached_per_run
def read_judged(run: Run) -> JudgedRun | None:
    """Read the judgements and human scores of a scored run.

    Args:
        run: a scored run, or its folder.

    Returns:
        None if the run has none of the tasks of Eq. 3, or nobody judged it and people scored none of them.

    Raises:
        H2HTalkError: the run is not scored, or not complete.

    """
    scores, panel = read_scores(run), Panel.read(run.path)
    if not set(JUDGED_TASKS) & set(scores.items["task"]):
        return None
    people = human_scores(run)
    if panel is None:
        is_judged_task = scores.items["task"].map(lambda task: TASKS[task].judged)
        if not people.keys() & set(scores.items["id"][is_judged_task]):
            return None
        panel = Panel(())
    items = panel_scores(run).copy()
    items["human_score"] = items["id"].map(people).astype(float)
    final = items["human_score"].fillna(items["judge_score"])
    items["j"] = [
        np.nan if np.isnan(score) else panel.j(task, composite, score)
        for task, composite, score in zip(items["task"], items["composite"], final, strict=True)
    ]
    judgements = valid_judgements(run.path, judge_items(run), panel)
    scored = [one for of_item in judgements.values() for one in of_item if one.unscored is None]
    num_reviewed = int(items["human_score"].notna().sum())
    signature = scores.signature | _signature(run, panel) | ({"people": num_reviewed} if num_reviewed else {})
    return JudgedRun(items, scored, panel, signature, stale_reasons(run))


def _alpha(judgements: Sequence[Judgement], value: Callable[[Judgement], float | None]) -> float | None:
    """Agreement of the judges about a value of their judgements."""
    rows = [(one.judge_model, one.record_id, value(one)) for one in judgements]
    ratings = pd.DataFrame(rows, columns=["judge_model", "id", "value"])
    return krippendorff_alpha(ratings.pivot(index="judge_model", columns="id", values="value").to_numpy(dtype=float))


def _signature(run: Run, panel: Panel) -> dict[str, Any]:
    rubrics = {item.rubric.name: item.rubric.hash for item in judge_items(run)}
    blending: dict[str, Any] = {"alpha": panel.alpha, "tau": panel.tau}
    blending |= {} if panel.tau_share is None else {"tau_share": panel.tau_share}
    blending |= {"scale": panel.scale.name} | ({"ceilings": panel.scale.ceilings} if panel.scale.ceilings else {})
    if not panel.judges:
        return {"judge": None, "rubrics": rubrics, **blending}
    return {
        "judge": ",".join(panel.judges),
        "rubrics": rubrics,
        "judge_prompt": prompt_hash(run.languages[0]),
        "num_explanations": panel.num_explanations,
        "judge_seed": panel.seed,
        **blending,
        **({"judge_server": panel.server} if panel.server else {}),
        **({"judge_temperature": _temperature(panel)} if panel.default_temperature else {}),
    }


def _temperature(panel: Panel) -> str:
    """Which judges have their model's default temperature instead of 0."""
    if panel.default_temperature == panel.judges:
        return "default"
    return f"default for {','.join(panel.default_temperature)}"
