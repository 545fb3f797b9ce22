"""The table of the eleven tasks: names, counts, limits (paper, Table 1). Everything else reads it."""

__all__ = [
    "DIMENSIONS",
    "EMOTIONS",
    "MEMORY",
    "NEEDS",
    "PLANNING",
    "PROBES",
    "PROBE_SETS",
    "TASKS",
    "Task",
    "select_tasks",
]

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from h2htalk_datasets.errors import H2HTalkError, did_you_mean


@dataclass(frozen=True)
class Task:
    """One config of the benchmark.

    Attributes:
        name: config name.
        dimension: ``Dialogue``, ``Itinerary`` or ``Recollection``.
        count: records in Table 1.
        each: records per relationship; a relationship whose cast row lists the task under ``plus`` has one more.
        limits: longest answer by language, in the units of :data:`h2htalk_datasets.languages.LANGUAGES` (words or
            characters); empty where the format sets other limits.
        max_new_tokens: most tokens of a generated answer by language, about 1.5 times the longest reference.
        judged: whether the judge's score is blended in (Eq. 3).

    """

    name: str
    dimension: str
    count: int
    each: int
    limits: Mapping[str, int]
    max_new_tokens: Mapping[str, int]
    judged: bool = False


_TABLE = [
    Task("DialogueBase", "Dialogue", 1882, 37, {"en": 40, "zh": 60}, {"en": 96, "zh": 96}),
    Task("DialogueEmotion", "Dialogue", 99, 1, {"en": 70, "zh": 110}, {"en": 160, "zh": 176}),
    Task("DialogueSchedule", "Dialogue", 533, 10, {"en": 45, "zh": 70}, {"en": 112, "zh": 112}),
    Task("RecollectionSynthesis", "Recollection", 412, 8, {}, {"en": 224, "zh": 320}),
    Task("RecollectionRefinement", "Recollection", 589, 11, {"en": 25, "zh": 40}, {"en": 64, "zh": 64}),
    Task("RecollectionInitialization", "Recollection", 102, 2, {"en": 55, "zh": 85}, {"en": 144, "zh": 144}),
    Task("ItineraryBasic", "Itinerary", 207, 4, {"en": 100, "zh": 160}, {"en": 224, "zh": 256}, judged=True),
    Task("ItineraryMiddle", "Itinerary", 444, 8, {}, {"en": 192, "zh": 224}, judged=True),
    Task("ItineraryAdvanced", "Itinerary", 143, 2, {}, {"en": 320, "zh": 320}, judged=True),
    Task("ItineraryResponse", "Itinerary", 163, 3, {"en": 30, "zh": 50}, {"en": 64, "zh": 80}),
    Task("ItineraryInitialization", "Itinerary", 76, 1, {"en": 55, "zh": 85}, {"en": 128, "zh": 144}),
]

TASKS: dict[str, Task] = {task.name: task for task in _TABLE}
"""The eleven tasks by name, in the order in which records, tables and runs list them."""

DIMENSIONS = ("Dialogue", "Itinerary", "Recollection")
"""The three dimensions in the order of the paper's Table 2."""

PROBES = ("SafetyHighRisk", "InstructionFollowing")
"""The two probe sets, which are never part of the eleven tasks or of their scores."""

MEMORY = "CompanionMemory"
"""The questions about conversations over weeks; never part of the eleven tasks or of their scores."""

PLANNING = "CompanionPlanning"
"""The plans of several days, which a program checks; never part of the eleven tasks or of their scores."""

PROBE_SETS = (*PROBES, PLANNING)
"""What a run of `h2htalk probe` can be over."""

NEEDS = ("explicit", "implicit", "evolving", "contextual")

EMOTIONS = (
    "sadness grief anger fear anxiety guilt shame loneliness jealousy disappointment hurt overwhelm exhaustion "
    "hopelessness homesickness nostalgia relief joy pride gratitude hope excitement tenderness boredom"
).split()


def select_tasks(names: str | Iterable[str] = "all") -> list[Task]:
    """Return the named tasks in the table's order.

    Args:
        names: ``"all"``, one name, names joined by commas, or an iterable of names (without ``"all"``).

    Raises:
        H2HTalkError: a name is unknown or there is none; the message lists the eleven names and the nearest one.

    """
    selected = [part.strip() for part in names.split(",")] if isinstance(names, str) else list(names)
    selected = [name for name in selected if name]
    if isinstance(names, str) and selected == ["all"]:
        return list(TASKS.values())
    for name in selected:
        if name not in TASKS:
            raise H2HTalkError(f"unknown task {name!r}.{did_you_mean(name, TASKS)} The tasks are: {', '.join(TASKS)}")
    if not selected:
        raise H2HTalkError(f"no task named; give 'all' or some of: {', '.join(TASKS)}")
    return [task for task in TASKS.values() if task.name in selected]
