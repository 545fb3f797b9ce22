"""Read the authored YAML: one file per relationship, one pydantic model per kind of entry.

Every error is collected with its file, record and field; nothing is skipped silently.
"""

__all__ = [
    "KEYS",
    "SOURCES",
    "CastRow",
    "Relationship",
    "load_cast",
    "load_people",
    "load_relationship",
    "read_sources",
    "source_files",
]

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import parse_yaml
from h2htalk_datasets.languages import LANGUAGES
from h2htalk_datasets.schema import Category, Memory, Record, ScheduleEntry, Strict, Text, Turn, problems_of
from h2htalk_datasets.tasks import TASKS

SOURCES = Path(__file__).parent
"""The folder with one folder per language, which has the relationships and their ``cast.yaml``."""


_CAST = "cast.yaml"


class Companion(Strict):
    """The companion; a model sees only name and profile."""

    name: Text
    age: Annotated[int, Field(ge=18)]
    profile: Text


class User(Strict):
    """The user; `about` is for the writer, no prompt shows it."""

    name: Text
    age: Annotated[int, Field(ge=18)]
    about: Text


class StoredMemory(Memory):
    """A memory of the relationship, which records quote under ``uses``; here the labels are required."""

    category: Category
    importance: Literal[0, 1, 2]


class Slot(Strict):
    """The entry of a day that ItineraryAdvanced fills with steps."""

    time: Text
    activity: Text


class AuthoredRecord(Strict):
    """One record as written in a source; `KEYS` says which keys belong to which task."""

    history: list[dict[Literal["user", "companion"], Text]] = []
    uses: list[Text] = []
    schedule: list[ScheduleEntry] = []
    today: Text | None = None
    memory: Text | None = None
    hobbies: list[Text] = []
    outline: Text | None = None
    itinerary: Text | None = None
    slot: Slot | None = None
    doing: Text | None = None
    remark: Text | None = None
    emotion: Text | None = None
    need: Text | None = None
    difficulty: int
    reference: Text
    points: Annotated[list[Text], Field(min_length=1, max_length=3)] = []
    alternatives: list[Text] = []


class Relationship(Strict):
    """One companion and one user with a shared past, and all their records.

    In the shipped corpus the folder says the language; a file of another corpus says it itself.
    """

    id: Annotated[str, Field(pattern=r"^\d{1,3}-\S+$")]  # its number is part of its records' ids
    companion: Companion
    user: User
    language: Literal[tuple(LANGUAGES)] | None = None  # type: ignore[valid-type]
    memories: list[StoredMemory]
    records: dict[str, list[AuthoredRecord]]


class CastRow(Strict):
    """A row of ``cast.yaml``: the writer's brief, and how many records the relationship has."""

    number: Annotated[int, Field(ge=1, le=50)]
    slug: Text
    bond: Text
    romantic: bool
    companion: Text
    temperament: Text
    user: Text
    place: Text
    going_through: Text
    talk: Text
    honest: Text | None = None
    plus: list[Text]

    def quota(self) -> dict[str, int]:
        """Records per task that the relationship must have."""
        return {task.name: task.each + (task.name in self.plus) for task in TASKS.values()}


KEYS: dict[str, tuple[set[str], set[str]]] = {
    "DialogueBase": ({"history", "need"}, {"uses", "emotion", "points"}),
    "DialogueEmotion": ({"history", "need", "emotion"}, {"uses", "points"}),
    "DialogueSchedule": ({"history", "schedule", "need"}, {"uses", "emotion", "points"}),
    "RecollectionSynthesis": ({"history"}, {"today"}),
    "RecollectionRefinement": ({"memory"}, {"history", "today"}),
    "RecollectionInitialization": ({"uses"}, {"points"}),
    "ItineraryBasic": ({"hobbies"}, {"uses"}),
    "ItineraryMiddle": ({"outline"}, set()),
    "ItineraryAdvanced": ({"itinerary", "slot"}, set()),
    "ItineraryResponse": ({"doing", "remark"}, {"points"}),
    "ItineraryInitialization": ({"schedule"}, {"uses", "points"}),
}
"""The required and the optional keys per task. Every task has difficulty and reference, and may have alternatives."""

_KEYS_OF_ALL_TASKS = {"difficulty", "reference", "alternatives"}


def source_files(folder: Path = SOURCES, language: str = "en") -> list[Path]:
    """The relationship files of a language, ordered by their numbers."""
    files = sorted(file for file in (folder / language).glob("*.yaml") if file.name != _CAST)
    if not files:
        raise H2HTalkError(f"no relationship files in {folder / language}")
    return files


@cache
def load_cast(language: str = "en") -> tuple[CastRow, ...]:
    """Read the ``cast.yaml`` of a language: fifty rows ordered by their numbers."""
    try:
        rows = parse_yaml((SOURCES / language / _CAST).read_text("utf-8"))
        return tuple(CastRow.model_validate(row) for row in rows)
    except ValidationError as error:
        raise H2HTalkError(f"{language}/{_CAST}: {'; '.join(problems_of(error))}") from None


def load_people(relationship: str, language: str = "en") -> tuple[Companion, User]:
    """Read companion and user of a relationship; its records, which are most of the file, are not parsed.

    Args:
        relationship: name of its file, without the ending.
        language: of the relationship.

    Raises:
        H2HTalkError: there is no such relationship.

    """
    file = SOURCES / language / f"{relationship}.yaml"
    if not file.exists():
        raise H2HTalkError(f"there is no relationship {relationship!r} in the language {language!r}")
    head = parse_yaml(file.read_text("utf-8").partition("\nrecords:")[0])
    return Companion.model_validate(head["companion"]), User.model_validate(head["user"])


def load_relationship(file: Path) -> Relationship:
    """Read one relationship file.

    Raises:
        H2HTalkError: the file is not YAML, or a field is missing, unknown or of the wrong type; one line per error.

    """
    try:
        relationship = Relationship.model_validate(parse_yaml(file.read_text("utf-8")))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise H2HTalkError(f"{file.name}: not readable as YAML: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        raise H2HTalkError("\n".join(f"{file.name}: {line}" for line in problems_of(error))) from None
    if relationship.id != file.stem:
        raise H2HTalkError(f"{file.name}: id: is {relationship.id!r}, expected {file.stem!r}")
    return relationship


def read_sources(files: Iterable[Path], language: str = "en") -> tuple[list[Record], list[str]]:
    """Read relationship files.

    Args:
        files: the files, in the order of the records.
        language: language of the records of a file that does not name its own.

    Returns:
        The records without messages, and all errors, one line each with file, record and field.

    """
    records: list[Record] = []
    errors: list[str] = []
    for file in files:
        try:
            relationship = load_relationship(file)
        except H2HTalkError as error:
            errors.extend(str(error).splitlines())
            continue
        own_records, own_errors = _to_records(relationship, relationship.language or language)
        records.extend(own_records)
        errors.extend(f"{file.name}: {error}" for error in own_errors)
    return records, errors


def _to_records(relationship: Relationship, language: str) -> tuple[list[Record], list[str]]:
    records: list[Record] = []
    errors = [f"records: unknown task {task!r}" for task in relationship.records if task not in TASKS]
    number = int(relationship.id.split("-")[0])
    for task in TASKS:
        for index, authored in enumerate(relationship.records.get(task, []), 1):
            problems = _key_problems(task, authored)
            if not problems:
                try:
                    identity = f"{language}-{number:03d}-{task}-{index:03d}"
                    records.append(_to_record(relationship, task, authored, identity, language))
                except ValidationError as error:
                    problems = problems_of(error)
                except ValueError as error:
                    problems = [str(error)]
            errors.extend(f"{task} {index}: {problem}" for problem in problems)
    return records, errors


def _key_problems(task: str, authored: AuthoredRecord) -> list[str]:
    required, optional = KEYS[task]
    present = authored.model_fields_set - _KEYS_OF_ALL_TASKS
    return [f"{key}: is missing" for key in sorted(required - present)] + [
        f"{key}: does not belong to {task}" for key in sorted(present - required - optional)
    ]


def _to_record(relationship: Relationship, task: str, authored: AuthoredRecord, identity: str, language: str) -> Record:
    return Record(
        id=identity,
        task=task,
        language=language,
        relationship=relationship.id,
        companion=relationship.companion.name,
        user=relationship.user.name,
        persona=relationship.companion.profile.strip(),
        reference=authored.reference.strip(),
        emotion=authored.emotion,
        need=authored.need,
        difficulty=authored.difficulty,  # type: ignore[arg-type]
        points=authored.points,
        alternatives=[text.strip() for text in authored.alternatives],
        **_prompt_columns(relationship, authored, language),
    )


def _prompt_columns(relationship: Relationship, authored: AuthoredRecord, language: str) -> dict[str, Any]:
    """The columns that hold what the record's prompt shows."""
    separator = LANGUAGES[language].list_separator
    columns: dict[str, Any] = {
        "history": [Turn(role=role, content=text) for turn in authored.history for role, text in turn.items()],
        "memories": _used_memories(relationship, authored.uses),
        "schedule": authored.schedule,
        "instruction": authored.today or authored.outline or authored.doing or separator.join(authored.hobbies) or None,
    }
    if authored.memory:
        columns["memories"] = [Memory(content=authored.memory)]
    if authored.itinerary and authored.slot:
        columns["schedule"] = _day_with_slot(authored.itinerary, authored.slot)
    if authored.remark:
        columns["history"] = [Turn(role="user", content=authored.remark)]
    return columns


def _used_memories(relationship: Relationship, uses: list[str]) -> list[Memory]:
    stored = {memory.content: memory for memory in relationship.memories}
    for quote in uses:
        if quote not in stored:
            raise ValueError(f"uses: not word for word among the file's memories: {quote!r}")
    return [Memory(**stored[quote].model_dump()) for quote in uses]


def _day_with_slot(itinerary: str, slot: Slot) -> list[ScheduleEntry]:
    entries = []
    for part in itinerary.split(" · "):
        time, _, activity = part.strip().partition(" ")
        is_slot = (time, activity) == (slot.time, slot.activity)
        entries.append(ScheduleEntry(time=time, activity=activity, current=is_slot))
    if not any(entry.current for entry in entries):
        raise ValueError(f"slot: {slot.time} {slot.activity!r} is not an entry of the itinerary")
    return entries
