"""Read the references that the paper's authors published, from a local copy of their repository.

Of the benchmark's data the repository has only ``{"response": ...}`` lines in Chinese, without prompts. It also has
prompt templates, a persona text and scorers, but not the values that fill the templates, so the prompts cannot be
rebuilt. It has no licence, so nothing of it is shipped here. Two files have swapped contents. Their number of lines
tells: in Table 1 DialogueSchedule has 533 records and ItineraryInitialization has 76.
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
    "DialogueSchedule": "dialogue_schedule",
    "RecollectionSynthesis": "recollection_synthesize",
    "RecollectionRefinement": "recollection_refine",
    "RecollectionInitialization": "recollection_initialize",
    "ItineraryBasic": "itinerary_basic",
    "ItineraryMiddle": "itinerary_middle",
    "ItineraryAdvanced": "itinerary_advanced",
    "ItineraryResponse": "itinerary_feedback",
    "ItineraryInitialization": "itinerary_initialize",
}


@dataclass
class AuthorsRelease:
    """The published references, and what is missing.

    Attributes:
        configs: task name to a Dataset with the columns id, task, language, messages (None), reference.
        notes: one line for everything that is missing or under another name.

    """

    configs: "dict[str, Dataset]" = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def authors_release(folder: str | Path) -> AuthorsRelease:
    """Read the eleven published files and map them to the eleven tasks.

    Args:
        folder: folder with the ``*.jsonl`` files of the authors' repository.

    Returns:
        References without prompts, and notes on what is missing compared with Table 1.

    Raises:
        H2HTalkError: the folder has none of the files, or a line is not ``{"response": text}``.

    """
    from datasets import Dataset

    texts = {task: _read(Path(folder) / f"{name}.jsonl") for task, name in _FILES.items()}
    if not any(texts.values()):
        raise H2HTalkError(f"{folder} has none of the published files ({', '.join(_FILES.values())}, as .jsonl)")
    release = AuthorsRelease()
    if len(texts["DialogueSchedule"]) < len(texts["ItineraryInitialization"]):
        swapped = texts["ItineraryInitialization"], texts["DialogueSchedule"]
        texts["DialogueSchedule"], texts["ItineraryInitialization"] = swapped
        release.notes.append(
            "dialogue_schedule and itinerary_initialize have swapped contents, by their number of lines"
        )
    for task in TASKS.values():
        references = texts[task.name]
        if len(references) != task.count:
            release.notes.append(f"{task.name}: {len(references)} of {task.count} references")
        rows = [
            {"id": f"zh-release-{task.name}-{number:04d}", "task": task.name, "language": "zh", "messages": None}
            | {"reference": text}
            for number, text in enumerate(references, 1)
        ]
        if rows:
            release.configs[task.name] = Dataset.from_list(rows)
    release.notes.append(
        "no prompts: the release has prompt templates but not the values that fill them, so `messages` is None"
    )
    return release


def _read(file: Path) -> list[str]:
    if not file.exists():
        return []
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
