"""A judged run: S and the judges' marks in one table, with J (Eq. 3), flags (Eq. 4), and what people said."""

__all__ = ["JudgedRun"]

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.judge.blend import blend, flagged
from h2htalk_metric.judge.items import items_of
from h2htalk_metric.judge.marking import Item
from h2htalk_metric.judge.prompt import prompt_hash
from h2htalk_metric.judge.run_judgements import Panel, standing, verdicts_of
from h2htalk_metric.runs.scoring import RunScores
from h2htalk_metric.stats.agreement import krippendorff_alpha


@dataclass(frozen=True)
class JudgedRun:
    """The answers of a scored run that judges or people mark.

    Attributes:
        items: a row per judged answer: id, task, composite (S, 0..1), judge (J_judge, the panel's mean, 0..5),
            spread (highest less lowest judge), gap (answer first less reference first), unscored (why the panel
            has no mark, or None), human (0..5), j_judge (J with the judge), flagged (j_judge < tau), and j, in which
            a person's score stands in the judge's place. What is not there is NaN.
        marks: a row per judge and answer that it marked: id, task, judge, score, verdict, a mark per criterion, and
            why, what the judge said, by position; untrusted.
        panel: who judged and how; without judges where only people marked.
        signature: of S, with all that J depends on besides; `people` is the number of answers that people settled.

    """

    items: pd.DataFrame
    marks: pd.DataFrame
    panel: Panel
    signature: dict[str, Any]

    @classmethod
    def read(cls, folder: str | Path, scores: RunScores, human: Mapping[str, float]) -> "JudgedRun | None":
        """Read the judgements of a scored run; None where no judge was asked and people have settled nothing.

        Args:
            folder: the run folder.
            scores: of the run.
            human: people's scores by record id, 0..5, see :func:`h2htalk_metric.review.human_scores`.

        """
        path = Path(folder)
        panel = Panel.read(path)
        if panel is None:
            tasks = scores.items.set_index("id")["task"]
            if not any(TASKS[tasks[identity]].judged for identity in human.keys() & set(tasks.index)):
                return None
            panel = Panel(())
        asked = items_of(path)
        lines = standing(path, asked, panel)
        composites = scores.items.set_index("id")["composite"]
        items = pd.DataFrame([_row(item, composites[item.id], lines, panel, human) for item in asked])
        scored = [line for line in lines.values() if "unscored" not in line]
        columns = {"id": "id", "rubric": "task", "judge": "judge", "score": "score", "verdict": "verdict", "why": "why"}
        marks = pd.DataFrame(
            [{new: line[old] for old, new in columns.items()} for line in scored], columns=[*columns.values()]
        )
        rubrics = {item.rubric.name: item.rubric.hash for item in asked}
        people = int(items["human"].notna().sum())
        signature = scores.signature | _judged_signature(panel, rubrics) | ({"people": people} if people else {})
        return cls(items, marks, panel, signature)

    def by_task(self) -> pd.DataFrame:
        """Per judged task: n; means of judge, gap, spread and j (0..5), and of S5 where there is a j; counts.

        The counts are with_j (items that have a J), unscored, flagged and reviewed.
        """
        grouped = self.items.groupby("task", sort=False)
        table = grouped[["judge", "gap", "spread", "j"]].mean()
        table["s5"] = 5 * self.items.dropna(subset="j").groupby("task")["composite"].mean()
        table["n"] = grouped.size()
        table["with_j"], table["unscored"] = grouped["j"].count(), grouped["unscored"].count()
        table["flagged"] = grouped["flagged"].sum()
        table["reviewed"] = grouped["human"].count()
        return table

    def values(self) -> dict[str, np.ndarray]:
        """J of every item that has one, by task, 0..5."""
        known = self.items.dropna(subset="j")
        return {str(task): rows["j"].to_numpy() for task, rows in known.groupby("task")}

    def reasons(self) -> dict[str, int]:
        """Why items are unscored, and how many each, the most frequent first."""
        return self.items["unscored"].value_counts().to_dict()

    def panel_agreement(self) -> dict[str, float | None]:
        """Krippendorff's alpha (interval) among the judges: of their scores, and of each criterion by task."""
        if len(self.panel.judges) < 2:
            return {}
        table = {"score": krippendorff_alpha(self._ratings(self.marks, "score"))}
        for task, rows in self.marks.groupby("task", sort=False):
            for name in rows["verdict"].iloc[0]:
                ratings = rows.assign(mark=[verdict[name] for verdict in rows["verdict"]])
                table[f"{task} {name}"] = krippendorff_alpha(self._ratings(ratings, "mark"))
        return table

    def _ratings(self, rows: pd.DataFrame, column: str) -> np.ndarray:
        return rows.pivot(index="judge", columns="id", values=column).to_numpy(dtype=float)


def _row(
    item: Item,
    composite: float,
    lines: Mapping[tuple[str, str], dict[str, Any]],
    panel: Panel,
    human: Mapping[str, float],
) -> dict[str, Any]:
    said, why = verdicts_of(item.id, lines, panel)
    row: dict[str, Any] = {"id": item.id, "task": item.rubric.name, "composite": composite}
    row |= {"judge": np.nan, "spread": np.nan, "gap": np.nan, "unscored": why, "human": human.get(item.id, np.nan)}
    row |= {"j_judge": np.nan, "flagged": False, "j": np.nan}
    if said:
        marks = [line["score"] for line in said]
        row |= {"judge": fmean(marks), "spread": max(marks) - min(marks)}
        row["gap"] = fmean(line["position_gap"] for line in said)
        row["j_judge"] = row["j"] = blend(composite, row["judge"], panel.alpha)
        row["flagged"] = flagged(row["j_judge"], panel.tau)
    if item.id in human:
        row["j"] = blend(composite, human[item.id], panel.alpha)
    return row


def _judged_signature(panel: Panel, rubrics: Mapping[str, str]) -> dict[str, Any]:
    if not panel.judges:
        return {"judge": None, "rubrics": dict(rubrics), "alpha": panel.alpha, "tau": panel.tau}
    return {
        "judge": ",".join(panel.judges),
        "rubrics": dict(rubrics),
        "judge_prompt": prompt_hash(),
        "evidence": panel.evidence,
        "judge_seed": panel.seed,
        "alpha": panel.alpha,
        "tau": panel.tau,
    } | ({"judge_server": panel.server} if panel.server else {})
