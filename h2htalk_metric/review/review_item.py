"""What people mark: an answer with everything that its model was sent, and the rubric for it."""

__all__ = ["GROUPS", "SHEET_COLUMNS", "Group", "Part", "ReviewItem", "parts_of"]

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from h2htalk_metric.judge.rubric import Rubric

Group = Literal["flagged", "control", "sample"]
GROUPS: tuple[Group, ...] = get_args(Group)
"""Why an item is in a review: its J is below tau; its J is not, and it is a control; it is part of a random sample."""

SHEET_COLUMNS = frozenset(
    "id task rater rubric answer_hash comment revision time inclusion_probability prompt reference answer".split()
)
"""Columns of the sheets, without those of the criteria."""


class Part(NamedTuple):
    """A part of what a model was sent; a folded one opens at a click."""

    title: str
    text: str
    folded: bool = False


class ReviewItem(NamedTuple):
    """One answer to be marked.

    Attributes:
        id: of the record; unique in a review.
        task: name of the config or the probe set.
        parts: what the model was sent.
        reference: the expected answer.
        answer: the model's answer.
        rubric: what it is marked by.
        group: see :data:`GROUPS`; never shown to raters.
        probability: with which the item was chosen, above 0 to 1; None if it is unknown.

    """

    id: str
    task: str
    parts: tuple[Part, ...]
    reference: str
    answer: str
    rubric: Rubric
    group: Group = "sample"
    probability: float | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON; the rubric by its hash."""
        return self._asdict() | {"parts": [list(part) for part in self.parts], "rubric": self.rubric.hash}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], rubrics: Mapping[str, Rubric]) -> "ReviewItem":
        """Inverse of :meth:`to_json`, with the rubrics by hash."""
        parts = tuple(Part(*part) for part in content["parts"])
        return cls(**{**content, "parts": parts, "rubric": rubrics[content["rubric"]]})


def parts_of(messages: Sequence[Mapping[str, str]], persona: str) -> tuple[Part, ...]:
    """Split messages into what a rater opens when needed (principles, profile, task) and what is read every time.

    Args:
        messages: as the model was sent them.
        persona: the companion's profile; the system message contains it, with any line breaks.

    """
    profile = re.compile(r"\s+".join(map(re.escape, persona.split())))
    parts = []
    for message in messages:
        text = message["content"].strip()
        match = profile.search(text) if message["role"] == "system" else None
        if match is None:
            parts.append(Part("Given" if message["role"] == "user" else message["role"].capitalize(), text))
            continue
        # The line before the profile introduces it ("You are ..."); above that are the principles.
        above, _, introduction = text[: match.start()].strip().rpartition("\n")
        parts.append(Part("Principles", above.strip(), folded=True))
        # The paragraph after the profile says that an AI plays this person; below that is the task.
        frame, _, task = text[match.end() :].strip().partition("\n\n")
        parts.append(Part("Profile", f"{introduction}\n\n{match.group()}\n\n{frame}".strip(), folded=True))
        parts.append(Part("Task", task.strip(), folded=True))
    return tuple(part for part in parts if part.text)
