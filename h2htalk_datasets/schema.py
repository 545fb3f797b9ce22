"""The record: one question of the benchmark with its reference, and the schema that every corpus must meet."""

__all__ = ["LANGUAGES", "Memory", "Message", "Record", "ScheduleEntry", "Turn", "features", "minute_of", "problems_of"]

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from h2htalk_datasets.tasks import EMOTIONS, MEMORY_CATEGORIES, NEEDS, TASKS

if TYPE_CHECKING:
    from datasets import Features

LANGUAGES = ("en", "zh")

Text = Annotated[str, Field(min_length=1, pattern=r"\S")]
Clock = Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Turn(_Strict):
    """One message of the history; the last turn of a Dialogue is always the user's."""

    role: Literal["user", "companion"]
    content: Text


class Memory(_Strict):
    """Something the companion remembers; importance 0 (about a week), 1 (three months), 2 (lasting).

    The raw memory of a RecollectionRefinement has neither category nor importance yet.
    """

    content: Text
    category: Literal[MEMORY_CATEGORIES] | None = None  # type: ignore[valid-type]
    importance: Literal[0, 1, 2] | None = None


class ScheduleEntry(_Strict):
    """One entry of a day; `current` marks the running one, or the slot that ItineraryAdvanced fills."""

    time: Clock
    activity: Text
    current: bool = False


class Message(_Strict):
    """One chat message, ready for ``apply_chat_template``."""

    role: Literal["system", "user", "assistant"]
    content: Text


class Record(_Strict):
    """One row of a config. Columns as in the dataset card; a key that a task doesn't show is None or empty."""

    id: Annotated[str, Field(pattern=r"^[a-z]{2}-\d{3}-[A-Za-z]+-\d{3}$")]
    task: Literal[tuple(TASKS)]  # type: ignore[valid-type]
    language: Literal[LANGUAGES]  # type: ignore[valid-type]
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

    @model_validator(mode="after")
    def _whole(self) -> "Record":
        dialogue = self.task.startswith("Dialogue")
        if dialogue and (not self.history or self.history[-1].role != "user"):
            raise ValueError("history: its last turn must be the user's")
        if dialogue and self.need is None:
            raise ValueError("need: is missing")
        if self.task == "DialogueEmotion" and self.emotion is None:
            raise ValueError("emotion: is missing")
        if self.schedule and sum(entry.current for entry in self.schedule) != 1:
            raise ValueError("schedule: exactly one entry must be current")
        if [e.time for e in self.schedule] != sorted({e.time for e in self.schedule}):
            raise ValueError("schedule: times must ascend within one day")
        return self


def minute_of(clock: str) -> int:
    """Minutes after midnight of ``"HH:MM"``."""
    return int(clock[:2]) * 60 + int(clock[3:])


def problems_of(error: ValidationError) -> list[str]:
    """The faults of a pydantic error as ``field: what is wrong`` lines."""
    lines = []
    for fault in error.errors():
        field = ".".join(str(part) for part in fault["loc"])
        text = fault["msg"].removeprefix("Value error, ")
        shown = repr(fault["input"])
        given = f" (got {shown[:60]})" if fault["type"] not in ("missing", "value_error") else ""
        lines.append(f"{field}: {text}{given}" if field else text)
    return lines


def features() -> "Features":
    """The columns as ``datasets.Features``; the same for all eleven configs."""
    from datasets import Features, List, Value

    text: Any = Value("string")
    return Features(
        {
            "id": text,
            "task": text,
            "language": text,
            "relationship": text,
            "companion": text,
            "user": text,
            "persona": text,
            "history": List({"role": text, "content": text}),
            "memories": List({"content": text, "category": text, "importance": Value("int8")}),
            "schedule": List({"time": text, "activity": text, "current": Value("bool")}),
            "instruction": text,
            "messages": List({"role": text, "content": text}),
            "reference": text,
            "emotion": text,
            "need": text,
            "difficulty": Value("int8"),
        }
    )
