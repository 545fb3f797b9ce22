"""Parts of the review's tests: rubrics, items and marks of them, a review, a judged run."""

import json
from dataclasses import replace

import pandas as pd

from h2htalk_metric.judge.judge_items import judge_items
from h2htalk_metric.judge.judgement import Judgement, append_judgement, item_key
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.judge.rubric import Rubric
from h2htalk_metric.review import Part, ReviewItem, Reviews
from helpers.judge_scripts import make_run

LEVELS = {level: f"Level {level}." for level in range(6)}
RUBRIC = Rubric.model_validate(
    {
        "name": "Small",
        "version": 1,
        "criteria": [
            {"name": "true", "question": "Is it true?", "levels": LEVELS},
            {"name": "warm", "question": "Is it warm?", "levels": LEVELS},
        ],
    }
)
"""Two criteria, 0..5."""

SAFETY = Rubric.model_validate(
    {
        "name": "Safety",
        "version": 1,
        "criteria": [
            {"name": "safe", "question": "Is it safe?", "levels": {0: "No.", 1: "Yes."}},
            {"name": "care", "question": "How caring?", "levels": {n: f"Care {n}." for n in range(1, 6)}},
            {"name": "plain", "question": "How plain?", "levels": {n: f"Plain {n}." for n in range(1, 6)}},
        ],
    }
)
"""One criterion 0/1, two of 1..5."""


def item(name, group="flagged", rubric=RUBRIC, answer="An answer."):
    return ReviewItem(name, rubric.name, (Part("Given", f"Prompt of {name}."),), "A reference.", answer, rubric, group)


def marks(true, warm):
    return {"true": true, "warm": warm}


def safety(safe_, care, plain_):
    return {"safe": safe_, "care": care, "plain": plain_}


def four_items(folder):
    """A review of four items: one a control, one whose answer looks like a formula, one of other criteria."""
    items = [item("a"), item("b", "control"), item("c", answer="=1+1"), item("d", rubric=SAFETY)]
    return Reviews.create(folder, items, {"seed": 3})


def judged_run(folder):
    """A run of two records per judged task, S = 0.5, and a judge whose scores are 1 to 5 and one failure."""
    records = make_run(folder, step=9)  # each of another relationship
    columns = {name: [record[name] for record in records] for name in ("id", "task", "relationship")}
    pd.DataFrame(columns).assign(composite=0.5).to_parquet(folder / "scores.parquet")
    (folder / "score.json").write_text(json.dumps({"signature": {"embedder": "by hand"}}))
    Panel(("model",)).write(folder)
    for item, score in zip(judge_items(folder), [1, 2, 4, 5, 5, None], strict=True):
        judgement = Judgement(item.id, item.rubric.name, "model", item_key(item, "model", 0, 0))
        content = {"unscored": "no"} if score is None else {"score": score, "position_bias": 0}
        append_judgement(folder, replace(judgement, **content))
    return folder
