"""Read the authored YAML: one file a relationship, one pydantic model a shape of record.

Every fault is gathered with its file, record and field; nothing is skipped silently.
"""

__all__ = ["SOURCES", "CastRow", "Relationship", "load_cast", "load_relationship", "read_sources", "to_records"]

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.schema import Memory, Record, ScheduleEntry, Turn, problems_of
from h2htalk_datasets.tasks import MEMORY_CATEGORIES, TASKS

SOURCES = Path(__file__).parent
"""The folder that holds ``cast.yaml`` and one folder of relationships per language."""

Text = Annotated[str, Field(min_length=1, pattern=r"\S")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Companion(_Strict):
    """Who speaks; only the profile is shown to a model."""

    name: Text
    age: Annotated[int, Field(ge=18)]
    profile: Text


class User(_Strict):
    """Whom the companion speaks to; `about` is for the writer and is never shown."""

    name: Text
    age: Annotated[int, Field(ge=18)]
    about: Text


class StoredMemory(Memory):
    """A memory of the file's list, which records quote under ``uses``; labels are required here."""

    category: Literal[MEMORY_CATEGORIES]  # type: ignore[valid-type]
    importance: Literal[0, 1, 2]


class Slot(_Strict):
    """The entry of a day that ItineraryAdvanced fills with steps."""

    time: Text
    activity: Text


class AuthoredRecord(_Strict):
    """One record as it is written; which keys belong to which task stands in `KEYS`."""

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


class Relationship(_Strict):
    """One companion and one user with a shared past, and all their records."""

    id: Annotated[str, Field(pattern=r"^\d{1,3}-\S+$")]  # its number is part of its records' ids
    companion: Companion
    user: User
    memories: list[StoredMemory]
    records: dict[str, list[AuthoredRecord]]


class CastRow(_Strict):
    """A row of ``cast.yaml``: the writer's brief and the file's quota."""

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
    honest: Text | None
    plus: list[Text]

    def quota(self) -> dict[str, int]:
        """Records per task that this relationship's file must hold."""
        return {task.name: task.each + (task.name in self.plus) for task in TASKS.values()}


KEYS: dict[str, tuple[set[str], set[str]]] = {
    "DialogueBase": ({"history", "need"}, {"uses", "emotion"}),
    "DialogueEmotion": ({"history", "need", "emotion"}, {"uses"}),
    "DialogueSchedule": ({"history", "schedule", "need"}, {"uses", "emotion"}),
    "RecollectionSynthesis": ({"history"}, {"today"}),
    "RecollectionRefinement": ({"memory"}, {"history", "today"}),
    "RecollectionInitialization": ({"uses"}, set()),
    "ItineraryBasic": ({"hobbies"}, {"uses"}),
    "ItineraryMiddle": ({"outline"}, set()),
    "ItineraryAdvanced": ({"itinerary", "slot"}, set()),
    "ItineraryResponse": ({"doing", "remark"}, set()),
    "ItineraryInitialization": ({"schedule"}, {"uses"}),
}
"""Per task the keys a record must have and those it may have, besides difficulty and reference."""


def load_cast(folder: Path = SOURCES) -> list[CastRow]:
    """Read ``cast.yaml``: fifty rows in the order of their numbers."""
    try:
        return [CastRow.model_validate(row) for row in yaml.safe_load((folder / "cast.yaml").read_text("utf-8"))]
    except ValidationError as error:
        raise H2HTalkError(f"cast.yaml: {'; '.join(problems_of(error))}") from None


def load_relationship(file: Path) -> Relationship:
    """Read one relationship file.

    Raises:
        H2HTalkError: the file is not YAML, or a field is missing, unknown or of the wrong kind; names all faults.

    """
    try:
        relationship = Relationship.model_validate(yaml.safe_load(file.read_text("utf-8")))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise H2HTalkError(f"{file.name}: not readable as YAML: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        faults = "\n".join(f"{file.name}: {line}" for line in problems_of(error))
        raise H2HTalkError(faults) from None
    if relationship.id != file.stem:
        raise H2HTalkError(f"{file.name}: id: is {relationship.id!r}, expected {file.stem!r}")
    return relationship


def read_sources(files: list[Path], language: str = "en") -> tuple[list[Record], list[str]]:
    """Read relationship files into records, and return the records with every fault found."""
    records: list[Record] = []
    faults: list[str] = []
    for file in files:
        try:
            relationship = load_relationship(file)
        except H2HTalkError as error:
            faults.extend(str(error).splitlines())
            continue
        made, found = to_records(relationship, language)
        records.extend(made)
        faults.extend(f"{file.name}: {fault}" for fault in found)
    return records, faults


def to_records(relationship: Relationship, language: str = "en") -> tuple[list[Record], list[str]]:
    """Turn a relationship into records without messages; faults are named by record and field."""
    records: list[Record] = []
    faults = [f"records: unknown task {task!r}" for task in relationship.records if task not in TASKS]
    for task in TASKS:
        for index, authored in enumerate(relationship.records.get(task, []), 1):
            identity = f"{language}-{int(relationship.id.split('-')[0]):03d}-{task}-{index:03d}"
            found = _key_faults(task, authored)
            try:
                if not found:
                    records.append(_to_record(relationship, task, authored, identity, language))
            except ValidationError as error:
                found = problems_of(error)
            except ValueError as error:
                found = [str(error)]
            faults.extend(f"{task} {index}: {fault}" for fault in found)
    return records, faults


def _key_faults(task: str, authored: AuthoredRecord) -> list[str]:
    required, optional = KEYS[task]
    given = authored.model_fields_set - {"difficulty", "reference"}
    return [f"{key}: is missing" for key in sorted(required - given)] + [
        f"{key}: does not belong to {task}" for key in sorted(given - required - optional)
    ]


def _to_record(relationship: Relationship, task: str, authored: AuthoredRecord, identity: str, language: str) -> Record:
    columns: dict[str, Any] = {
        "history": [Turn(role=role, content=text) for turn in authored.history for role, text in turn.items()],
        "memories": _used_memories(relationship, authored.uses),
        "schedule": authored.schedule,
    }
    if authored.today:
        columns["instruction"] = authored.today
    if authored.memory:
        columns["memories"] = [Memory(content=authored.memory)]
    if authored.hobbies:
        columns["instruction"] = ", ".join(authored.hobbies)
    if authored.outline:
        columns["instruction"] = authored.outline
    if authored.itinerary and authored.slot:
        columns["schedule"] = _day_with_slot(authored.itinerary, authored.slot)
    if authored.doing and authored.remark:
        columns["instruction"] = authored.doing
        columns["history"] = [Turn(role="user", content=authored.remark)]
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
        **columns,
    )


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
        here = (time, activity) == (slot.time, slot.activity)
        entries.append(ScheduleEntry(time=time, activity=activity, current=here))
    if not any(entry.current for entry in entries):
        raise ValueError(f"slot: {slot.time} {slot.activity!r} is not an entry of the itinerary")
    return entries
