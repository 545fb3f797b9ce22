"""The YAML sources of CompanionMemory: arcs of dated sessions, their ledger, their questions, and small talk."""

__all__ = [
    "FAMILIES",
    "SOURCES",
    "Arc",
    "Fact",
    "Question",
    "Session",
    "Turn",
    "read_arc",
    "read_arcs",
    "read_small_talk",
]

import datetime
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, ValidationError, model_validator

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import parse_yaml
from h2htalk_datasets.schema import Strict, Text, problems_of

SOURCES = Path(__file__).parent
"""The folder with one folder of arcs and small talk per language."""


FAMILIES = ("recall", "update", "order", "join", "abstention", "contradiction", "proactive", "discretion")
"""What a question tests. The unit of every table is the family."""

Forms = list[Text]
Turn = dict[Literal["user", "companion"], Text]
Day = datetime.date


class Session(Strict):
    """One conversation on one day; the user speaks first, the companion last."""

    id: Annotated[str, Field(pattern=r"^s\d+$")]
    date: Day
    time: Annotated[str, Field(pattern=r"^\d\d:\d\d$")]
    turns: Annotated[list[Turn], Field(min_length=12, max_length=20)]

    @model_validator(mode="after")
    def _check_turns(self) -> "Session":
        roles = [next(iter(turn)) for turn in self.turns]
        if roles != ["user", "companion"] * (len(roles) // 2):
            raise ValueError(f"{self.id}: user and companion must take turns, from the user to the companion")
        return self


class Place(Strict):
    """A turn of a session: turns are numbered from 1."""

    session: str
    turn: Annotated[int, Field(ge=1)]


class Mention(Place):
    """Where a value is said, and how."""

    how: Literal["stressed", "passing"]


class Change(Place):
    """Where a value changes: `update` if the world changed, `correction` if the user had misspoken."""

    kind: Literal["update", "correction"]
    value: Text


class Fact(Strict):
    """One entry of the ledger. A fact with `never_said` is plausible, but no session says it."""

    id: Annotated[str, Field(pattern=r"^[fn]\d+$")]
    fact: Text
    value: Text
    said: list[Mention] = []
    changes: list[Change] = []
    discreet: Place | None = None
    never_said: bool = False

    @model_validator(mode="after")
    def _check_said(self) -> "Fact":
        if self.never_said == bool(self.said):
            raise ValueError(f"{self.id}: a fact has either `said` or `never_said: true`")
        return self


class Question(Strict):
    """A message of the user after a session, with the forms that decide the verdict on an answer.

    Attributes:
        after: the session after which it is asked.
        date: the day on which it is asked.
        facts: the entries of the ledger that it depends on.
        accept: groups of forms; a right answer has at least one form of each group.
        stale: forms of values that no longer hold.
        reject: forms that are wrong: values that were never said, agreement with a wrong claim, what must stay unsaid.
        abstain: forms of abstention for this question, in addition to the general ones.

    """

    id: Annotated[str, Field(pattern=r"^q\d+$")]
    family: Literal[FAMILIES]  # type: ignore[valid-type]
    after: str
    date: Day
    facts: Annotated[list[str], Field(min_length=1)]
    message: Text
    reference: Text
    accept: list[Annotated[Forms, Field(min_length=1)]] = []
    stale: Forms = []
    reject: Forms = []
    abstain: Forms = []

    @model_validator(mode="after")
    def _check_forms(self) -> "Question":
        if bool(self.accept) == (self.family == "abstention"):
            raise ValueError(f"{self.id}: `accept` is required, except in abstention, where it is not allowed")
        if self.family == "update" and not self.stale:
            raise ValueError(f"{self.id}: an update needs `stale`")
        if self.family in ("contradiction", "discretion") and not self.reject:
            raise ValueError(f"{self.id}: {self.family} needs `reject`")
        return self


class Arc(Strict):
    """The sessions of one relationship over some weeks, their ledger and their questions."""

    relationship: Text
    sessions: Annotated[list[Session], Field(min_length=6, max_length=8)]
    ledger: list[Fact]
    questions: list[Question]

    @model_validator(mode="after")
    def _check_references(self) -> "Arc":
        sessions = {session.id: session for session in self.sessions}
        facts = {fact.id for fact in self.ledger}
        _check_unique([*sessions, *facts, *(question.id for question in self.questions)], self)
        for fact in self.ledger:
            for place in (*fact.said, *fact.changes, *([fact.discreet] if fact.discreet else [])):
                if place.session not in sessions or place.turn > len(sessions[place.session].turns):
                    raise ValueError(f"{fact.id}: there is no turn {place.turn} in {place.session}")
        for question in self.questions:
            if question.after not in sessions or not facts.issuperset(question.facts):
                raise ValueError(f"{question.id}: `after` must name a session, `facts` entries of the ledger")
        if [s.date for s in self.sessions] != sorted({s.date for s in self.sessions}):
            raise ValueError("each session must be on a later day than the one before")
        return self


def read_arc(file: Path) -> Arc:
    """Read one arc.

    Raises:
        H2HTalkError: the file violates the schema; each line names the file and the place.

    """
    try:
        return Arc.model_validate(parse_yaml(file.read_text("utf-8")))
    except (ValidationError, yaml.YAMLError) as error:
        problems = problems_of(error) if isinstance(error, ValidationError) else [" ".join(str(error).split())]
        raise H2HTalkError("\n".join(f"{file.name}: {problem}" for problem in problems)) from None


def read_arcs(language: str = "en") -> list[Arc]:
    """The arcs of a language in the order of the relationships."""
    return [read_arc(file) for file in sorted((SOURCES / language / "arcs").glob("*.yaml"))]


def read_small_talk(language: str = "en") -> list[list[Turn]]:
    """Shared conversations without facts, which stretch an arc to a length."""
    files = sorted((SOURCES / language).glob("small_talk*.yaml"))
    return [talk["turns"] for file in files for talk in parse_yaml(file.read_text("utf-8"))]


def _check_unique(ids: list[str], arc: Arc) -> None:
    if repeated := sorted({each for each in ids if ids.count(each) > 1}):
        raise ValueError(f"ids occur twice: {', '.join(repeated)}")
