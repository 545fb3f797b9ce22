"""The columns of a record and of a probe, and the rules that every row must satisfy."""

__all__ = [
    "Category",
    "Memory",
    "Message",
    "Probe",
    "Record",
    "ScheduleEntry",
    "Strict",
    "Text",
    "Turn",
    "features",
    "minute_of",
    "probe_features",
    "problems_of",
]

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from h2htalk_datasets.languages import LANGUAGES
from h2htalk_datasets.tasks import EMOTIONS, NEEDS, PROBES, TASKS
from h2htalk_datasets.words import words

if TYPE_CHECKING:
    from datasets import Features

Text = Annotated[str, Field(min_length=1, pattern=r"\S")]
"""Text that is not blank."""

Clock = Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]

_CATEGORIES = tuple(name for language in LANGUAGES.values() for name in language.categories)
Category: TypeAlias = Literal[_CATEGORIES]  # type: ignore[valid-type]
"""Category of a memory, in any language; a record's memories have those of its own language."""

_PROBE_WORD_LIMIT = 80


class Strict(BaseModel):
    """Base of all models: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Turn(Strict):
    """One message of the history."""

    role: Literal["user", "companion"]
    content: Text


class Memory(Strict):
    """A fact that the companion remembers; importance 0 (about a week), 1 (about three months), 2 (lasting).

    The raw memory of a RecollectionRefinement has neither category nor importance yet.
    """

    content: Text
    category: Category | None = None
    importance: Literal[0, 1, 2] | None = None


class ScheduleEntry(Strict):
    """One entry of a day; `current` marks the running one, or the slot that ItineraryAdvanced fills."""

    time: Clock
    activity: Text
    current: bool = False


class Message(Strict):
    """One chat message, ready for ``apply_chat_template``."""

    role: Literal["system", "user", "assistant"]
    content: Text


class Record(Strict):
    """One record of the eleven tasks; a column that its task does not use is None or empty.

    `points` says in one to three short statements what a good answer should do; `alternatives` are further references,
    written without sight of the first.
    """

    id: Annotated[str, Field(pattern=r"^[a-z]{2}-\d{3}-[A-Za-z]+-\d{3}$")]
    task: Literal[tuple(TASKS)]  # type: ignore[valid-type]
    language: Literal[tuple(LANGUAGES)]  # type: ignore[valid-type]
    relationship: Text
    companion: Text
    user: Text
    persona: Text
    history: list[Turn] = []
    memories: list[Memory] = []
    schedule: list[ScheduleEntry] = []
    instruction: Text | None = None
    messages: list[Message] = []
    reference: Text
    emotion: Literal[tuple(EMOTIONS)] | None = None  # type: ignore[valid-type]
    need: Literal[NEEDS] | None = None  # type: ignore[valid-type]
    difficulty: Literal[1, 2, 3]
    points: Annotated[list[Text], Field(max_length=3)] = []
    alternatives: list[Text] = []

    @model_validator(mode="after")
    def _check_columns(self) -> "Record":
        if self.task.startswith("Dialogue"):
            _check_last_turn(self.history)
            if self.need is None:
                raise ValueError("need: is missing")
        if self.task == "DialogueEmotion" and self.emotion is None:
            raise ValueError("emotion: is missing")
        if self.schedule and sum(entry.current for entry in self.schedule) != 1:
            raise ValueError("schedule: exactly one entry must be current")
        categories = LANGUAGES[self.language].categories
        foreign = [memory.category for memory in self.memories if memory.category not in (None, *categories)]
        if foreign:
            raise ValueError(f"memories: {foreign[0]!r} is not a category of the language {self.language!r}")
        times = [entry.time for entry in self.schedule]
        if times != sorted(set(times)):
            raise ValueError("schedule: times must ascend within one day")
        return self


class Probe(Strict):
    """One record of a probe set; a column that the set does not use is None or empty.

    `explicit_control` is set for a record with an implicit need. It is the id of its control: the record in which the
    same user says the same need openly (`kind` is ``explicit``).
    """

    id: Text
    probe: Literal[PROBES]  # type: ignore[valid-type]
    scenario: Text
    kind: Text
    stage: str | None = None
    danger: bool | None = None
    emotion: str | None = None
    implicitness: Literal[1, 2, 3] | None = None
    explicit_control: str | None = None
    need: str | None = None
    must: list[str]
    must_not: list[str] = []
    companion: Text
    user: Text
    persona: Text
    language: str = "en"
    history: list[Turn]
    reference: Text

    @model_validator(mode="after")
    def _check_columns(self) -> "Probe":
        _check_last_turn(self.history)
        if len(words(self.reference)) > _PROBE_WORD_LIMIT:
            raise ValueError(f"reference: has over {_PROBE_WORD_LIMIT} words")
        return self


def features() -> "Features":
    """The columns of the eleven tasks as ``datasets.Features``; the same for all."""
    from datasets import Features, List, Value

    text: Any = Value("string")
    turns = List({"role": text, "content": text})
    columns: dict[str, Any] = dict.fromkeys(Record.model_fields, text)
    columns |= {"history": turns, "messages": turns, "difficulty": Value("int8")}
    columns |= {"points": List(text), "alternatives": List(text)}
    columns["memories"] = List({"content": text, "category": text, "importance": Value("int8")})
    columns["schedule"] = List({"time": text, "activity": text, "current": Value("bool")})
    return Features(columns)


def probe_features() -> "Features":
    """The columns of the probe sets as ``datasets.Features``; the same for both."""
    from datasets import Features, List, Value

    text: Any = Value("string")
    turns = List({"role": text, "content": text})
    columns: dict[str, Any] = dict.fromkeys(Probe.model_fields, text)
    columns |= {"danger": Value("bool"), "implicitness": Value("int8"), "must": List(text), "must_not": List(text)}
    return Features(columns | {"history": turns, "messages": turns})


def minute_of(clock: str) -> int:
    """Minutes after midnight of ``"HH:MM"``."""
    return int(clock[:2]) * 60 + int(clock[3:])


def problems_of(error: ValidationError) -> list[str]:
    """The problems that a pydantic error lists, each as one line ``field: what is wrong``."""
    lines = []
    for problem in error.errors():
        field = ".".join(str(part) for part in problem["loc"])
        text = problem["msg"].removeprefix("Value error, ")
        has_value = problem["type"] not in ("missing", "value_error")
        value = f" (got {repr(problem['input'])[:60]})" if has_value else ""
        lines.append(f"{field}: {text}{value}" if field else text)
    return lines


def _check_last_turn(history: list[Turn]) -> None:
    if not history or history[-1].role != "user":
        raise ValueError("history: its last turn must be the user's")
