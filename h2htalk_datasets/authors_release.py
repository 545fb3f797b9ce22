"""Read the references that the paper's authors published, from a folder the user has.

The release (one commit) holds only ``{"response": ...}`` lines in Chinese: references without any prompt. It bears
no licence, so none of it is shipped here. Two of its files bear each other's content; they are told apart by
length, since Table 1 gives DialogueSchedule 533 records and ItineraryInitialization 76.
"""

__all__ = ["AuthorsRelease", "authors_release"]

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.tasks import TASKS

if TYPE_CHECKING:
    from datasets import Dataset

_FILES = {
    "DialogueBase": "dialogue_base",
    "DialogueEmotion": "dialogue_emotion",
    "RecollectionSynthesis": "recollection_synthesize",
    "RecollectionRefinement": "recollection_refine",
    "RecollectionInitialization": "recollection_initialize",
    "ItineraryBasic": "itinerary_basic",
    "ItineraryMiddle": "itinerary_middle",
    "ItineraryAdvanced": "itinerary_advanced",
    "ItineraryResponse": "itinerary_feedback",
}
_SWAPPED = ("dialogue_schedule", "itinerary_initialize")


@dataclass
class AuthorsRelease:
    """The published references by config, and what the release lacks.

    Attributes:
        configs: config name to a Dataset with the columns id, task, language, messages (None), reference.
        notes: one line for everything that is missing or not where its name says.

    """

    configs: "dict[str, Dataset]" = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def authors_release(folder: str | Path) -> AuthorsRelease:
    """Read the eleven published files and map them to the eleven configs: by name, two by their number of answers.

    Args:
        folder: holds the ``*.jsonl`` files of the authors' repository.

    Returns:
        References without prompts, and notes on what is missing against Table 1.

    Raises:
        H2HTalkError: the folder holds none of the files, or a line is not ``{"response": text}``.

    """
    from datasets import Dataset

    folder = Path(folder)
    names = _names_by_content(folder)
    release = AuthorsRelease()
    for task in TASKS.values():
        file = folder / f"{names[task.name]}.jsonl"
        texts = _read(file) if file.exists() else []
        if len(texts) != task.count:
            release.notes.append(f"{task.name}: {len(texts)} of {task.count} references ({file.name})")
        if texts:
            rows = [
                {"id": f"zh-release-{task.name}-{i:04d}", "task": task.name, "language": "zh", "messages": None}
                | {"reference": text}
                for i, text in enumerate(texts, 1)
            ]
            release.configs[task.name] = Dataset.from_list(rows)
    if not release.configs:
        raise H2HTalkError(f"{folder} holds none of the published files ({', '.join(names.values())}, as .jsonl)")
    if names["DialogueSchedule"] != "dialogue_schedule":
        release.notes.append("dialogue_schedule and itinerary_initialize bear each other's answers, by their number")
    release.notes.append("no prompts: the release holds references only, so `messages` is None")
    return release


def _names_by_content(folder: Path) -> dict[str, str]:
    lengths = {
        name: len(_read(folder / f"{name}.jsonl")) if (folder / f"{name}.jsonl").exists() else 0 for name in _SWAPPED
    }
    schedule, opening = sorted(_SWAPPED, key=lambda name: -lengths[name])
    if not any(lengths.values()):
        schedule, opening = _SWAPPED
    return {**_FILES, "DialogueSchedule": schedule, "ItineraryInitialization": opening}


def _read(file: Path) -> list[str]:
    texts = []
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            text = json.loads(line)["response"]
        except (ValueError, KeyError, TypeError):
            text = None
        if not isinstance(text, str):
            raise H2HTalkError(f'{file.name}, line {number}: not of the form {{"response": "text"}}')
        texts.append(text)
    return texts
