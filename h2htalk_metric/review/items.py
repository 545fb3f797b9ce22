"""What people mark: an answer with all that its model was given, and the rubric for it."""

__all__ = ["GROUPS", "SHEET_COLUMNS", "Group", "Part", "ReviewItem", "parts_of"]

import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from h2htalk_metric.judge.rubric import Rubric

Group = Literal["flagged", "control", "sample"]
GROUPS: tuple[Group, ...] = get_args(Group)
"""Why an item is there: its J is below tau; its J is not, and it was drawn beside those; drawn from a run at large."""

SHEET_COLUMNS = frozenset(
    ["id", "task", "rater", "rubric", "answer_hash", "note", "revision", "time", "prompt", "reference", "answer"]
)
"""What the columns of the sheets are called, beside those of the criteria."""


class Part(NamedTuple):
    """A piece of what a model was given; a folded one opens at a click."""

    title: str
    text: str
    folded: bool = False


class ReviewItem(NamedTuple):
    """One answer to be marked.

    Attributes:
        id: of the record; unique in a review.
        task: a config's name, or a probe set's.
        parts: what the model was given.
        reference: the expected answer.
        answer: the model's.
        rubric: what it is marked by.
        group: see :data:`GROUPS`; never shown to raters.

    """

    id: str
    task: str
    parts: tuple[Part, ...]
    reference: str
    answer: str
    rubric: Rubric
    group: Group = "sample"


def parts_of(messages: Sequence[Mapping[str, str]], persona: str) -> tuple[Part, ...]:
    """Split messages into what a rater opens when needed (principles, profile, task) and what is read every time.

    Args:
        messages: as the model was sent them.
        persona: the companion's profile, which stands somewhere in the system message, wrapped in any way.

    """
    profile = re.compile(r"\s+".join(map(re.escape, persona.split())))
    parts = []
    for message in messages:
        text = message["content"].strip()
        found = profile.search(text) if message["role"] == "system" else None
        if found is None:
            parts.append(Part("Given" if message["role"] == "user" else message["role"].capitalize(), text))
            continue
        # The line before the profile introduces it ("You are ..."); what is above that are the principles.
        above, _, introduction = text[: found.start()].strip().rpartition("\n")
        parts.append(Part("Principles", above.strip(), folded=True))
        parts.append(Part("Profile", f"{introduction}\n\n{found.group()}".strip(), folded=True))
        parts.append(Part("Task", text[found.end() :].strip(), folded=True))
    return tuple(part for part in parts if part.text)
