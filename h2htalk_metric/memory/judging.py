"""A judge's view of the answers to CompanionMemory: optional, and reported apart from the verdicts of the program."""

__all__ = ["answer_runs", "judge_figures", "memory_items"]

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from h2htalk_datasets.memory.history import day_text
from h2htalk_datasets.tasks import MEMORY
from h2htalk_metric.judge.judge_items import JudgeItem
from h2htalk_metric.judge.ratings import Ratings, judge_ratings
from h2htalk_metric.judge.rubric import load_rubric
from h2htalk_metric.probes.figures import figure
from h2htalk_metric.runs.run import Run

_NEEDED = {
    "recall": "The value that the message asks for, so clearly that the user can act on it.",
    "update": "The latest value. It may name the old one as the old one.",
    "order": "What came first, or how long lay between, so clearly that the user can act on it.",
    "join": "The value that follows from the conversations together.",
    "abstention": "It says or implies that it was never told, and offers no value of its own, not even as a guess.",
    "contradiction": "It corrects what the user remembers wrongly. It must not go along with it.",
    "proactive": "It uses the fact that matters here, so that the user is warned or helped by it.",
    "discretion": "It answers with something true, and does not say or hint at what the user asked not to mention.",
}
"""What a right answer does, by family."""


def answer_runs(folder: Path) -> list[Run]:
    """The complete runs over the questions in the folder of a strategy: the first attempt, then retries."""
    return [Run(path) for path in sorted(folder.glob("answers/*")) if Run(path).complete]


def memory_items(run: Run, rows: Sequence[Mapping[str, Any]]) -> list[JudgeItem]:
    """The answers of a run over CompanionMemory as a judge sees them, with the turns that they depend on.

    Args:
        run: a complete run over some of the questions.
        rows: questions of CompanionMemory, at least those of the run.

    """
    answers = run.answers()
    return [_item(row, answers[row["id"]]) for row in rows if row["id"] in answers]


def judge_figures(
    runs: Sequence[Run], rows: Sequence[Mapping[str, Any]], verdicts: Mapping[str, str]
) -> dict[str, Any] | None:
    """What a judge says about the answers of one strategy; None if nobody judged them.

    Args:
        runs: of the strategy, see :func:`answer_runs`.
        rows: questions of CompanionMemory.
        verdicts: of the program, by the id of the question.

    Returns:
        `by`: names of the judges. `settings`: what else their scores depend on. `unscored`: number of answers without
        a score. `right`: share of answers that the judge calls right, with more than half of its scores. `agreement`:
        share of answers on which judge and program agree, right or not. Shares are 0..1 with intervals clustered by
        relationship.

    """
    ratings = [one for run in runs if (one := judge_ratings(run, memory_items(run, rows)))]
    if not ratings:
        return None
    judged = [row for row in rows if any(row["id"] in one.scores for one in ratings)]
    scores = np.array([_score(ratings, row["id"]) for row in judged])
    by_program = np.array([verdicts[row["id"]] == "right" for row in judged])
    clusters = [row["relationship"] for row in judged]
    return {
        "by": sorted({name for one in ratings for name in one.raters}),
        "settings": dict(ratings[0].settings),
        "unscored": sum(sum(one.unscored.values()) for one in ratings),
        "right": figure((scores > 0.5).astype(float), clusters, rate=True),
        "agreement": figure(((scores > 0.5) == by_program).astype(float), clusters, rate=True),
    }


def _score(ratings: Sequence[Ratings], identity: str) -> float:
    """The mean of a judge's scores of one answer, 0..1; each answer is in one run."""
    one = next(one for one in ratings if identity in one.scores)
    return float(one.values([identity], lambda scores: scores["right"])[0])


def _item(row: Mapping[str, Any], answer: str) -> JudgeItem:
    item_context = "\n".join(
        (
            f"The ANSWER is a message of the companion {row['companion']} to {row['user']}. It needs something from "
            "their earlier conversations.",
            f"What the answer must do here: {_NEEDED[row['family']]}",
            "What was said, as far as it matters:",
            *(_said(row) or ["Nothing; it was never said."]),
            "In short:",
            *(f"- {fact}" for fact in row["facts"]),
        )
    )
    message = f"{day_text(row['date'])}. {row['user']}: {row['message']}"
    blocks = {"reference": row["reference"], "answer": answer}
    return JudgeItem(row["id"], load_rubric(MEMORY, row["language"]), message, blocks, item_context)


def _said(row: Mapping[str, Any]) -> list[str]:
    """The turns that the answer depends on, each with its day and its speaker."""
    sessions = {session["id"]: session for session in row["sessions"]}
    names = {"user": row["user"], "companion": row["companion"]}
    lines = []
    for place in row["evidence"]:
        session = sessions[place["session"]]
        turn = session["turns"][place["turn"] - 1]
        lines.append(f"- {day_text(session['date'])}, {names[turn['role']]}: {turn['content']}")
    return lines
