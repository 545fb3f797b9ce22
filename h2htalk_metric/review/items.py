"""What people mark: an answer with all that its model was given, and the rubric for it."""

__all__ = ["GROUPS", "Part", "ReviewItem", "draw", "parts_of", "sample"]

import random
import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.judge.rubric import Rubric

Group = Literal["flagged", "control", "sample"]
GROUPS: tuple[Group, ...] = get_args(Group)
"""Why an item is there: its J is below tau; its J is not, and it was drawn beside those; drawn from a run at large."""

_CONTROLS = 20  # as many controls as flagged items, up to this


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


def draw(
    values: Mapping[str, float], tau: float, *, controls: int | None = None, seed: int = 0
) -> dict[str, Group]:
    """Choose what people see of a judged run: all that is flagged, and controls drawn from the rest.

    Args:
        values: J by item id, 0..5.
        tau: what lies below it is flagged (Eq. 4).
        controls: how many of the rest; as many as are flagged, up to 20, if not given.
        seed: of the draw.

    """
    flagged = [identity for identity, value in values.items() if value < tau]
    rest = sorted(values.keys() - set(flagged))
    wanted = min(len(flagged), _CONTROLS) if controls is None else controls
    drawn = random.Random(f"controls {seed}").sample(rest, min(wanted, len(rest)))
    if not flagged and not drawn:
        raise H2HTalkError(f"no answer lies below tau = {tau:g}; name --controls N to look at some all the same")
    return dict.fromkeys(flagged, "flagged") | dict.fromkeys(drawn, "control")


def sample(ids: Sequence[str], count: int, seed: int = 0) -> dict[str, Group]:
    """Draw `count` of the ids, whatever a judge says; all of them if there are fewer."""
    if not ids:
        raise H2HTalkError("the run has no answers to the judged tasks (ItineraryBasic, -Middle, -Advanced)")
    drawn = random.Random(f"sample {seed}").sample(sorted(ids), min(count, len(ids)))
    return dict.fromkeys(drawn, "sample")
