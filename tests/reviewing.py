"""Parts of the review's tests: a rubric of two criteria, and items of it."""

from h2htalk_metric.judge.rubric import Rubric
from h2htalk_metric.review import Part, ReviewItem

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
    return ReviewItem(name, rubric.name, (Part("Given", f"Given to {name}."),), "A reference.", answer, rubric, group)
