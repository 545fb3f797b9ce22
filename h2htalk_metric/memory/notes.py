"""The strategy `notes`: the model keeps memories with the paper's own tasks, RecollectionSynthesis and -Refinement.

After each session the model extracts memories from it. A memory that resembles an earlier one does not become a second
one: the model rewrites the earlier one from the session. Memories of importance 0 fade after a week, of importance 1
after three months. All relationships advance together, one run of the model per step, so that batches stay full:

FOLDER/notes/N/extracted/   the memories of the Nth session
FOLDER/notes/N/refined/     the earlier memories that it completes or corrects
"""

__all__ = ["Note", "NoteBook", "take_notes"]

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from h2htalk_datasets.answer_format import parse_memories
from h2htalk_datasets.memory.history import day_text, session_day
from h2htalk_metric.runs.run import Run

_SAME_TOPIC = 60  # RapidFuzz token_set_ratio, 0..100, from which two memories are about one thing
_DAYS = {0: 7, 1: 92, 2: None}  # how long a memory lasts, by its importance (the prompt of RecollectionSynthesis)

Answer = Callable[[Path, Sequence[Mapping[str, Any]]], None]
"""Answers records into a run folder, see :func:`h2htalk_datasets.generation.run.generate`."""


@dataclass(frozen=True)
class Note:
    """One memory: its sentence, importance 0..2, and the day on which it was last confirmed."""

    content: str
    importance: int
    day: datetime.date


@dataclass
class NoteBook:
    """The notes of one relationship after each session, and the tokens that they cost.

    Attributes:
        after: notes by the id of the session.
        tokens: prompt and new tokens of all calls up to a session, by its id.

    """

    after: dict[str, list[Note]] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)

    def context(self, session: str, day: datetime.date) -> str:
        """What the model is shown on a day after a session."""
        notes = [note for note in self.after.get(session, []) if _lasts(note, day)]
        lines = [f"- {note.content} ({note.day.day} {note.day:%B})" for note in notes]
        return "\n".join(["What you remember, with the day of each memory:", *lines]) if lines else ""


def take_notes(
    folder: Path,
    arcs: Mapping[str, Mapping[str, Any]],
    histories: Mapping[str, Sequence[Mapping[str, Any]]],
    answer: Answer,
) -> dict[str, NoteBook]:
    """Let the model take notes on all arcs; continues where an earlier attempt stopped.

    Args:
        folder: of the steps.
        arcs: one question of each relationship, for its names and persona.
        histories: the sessions by relationship.
        answer: lets the model answer.

    """
    books = {relationship: NoteBook() for relationship in arcs}
    for number in range(max(map(len, histories.values()))):
        sessions = {name: history[number] for name, history in histories.items() if number < len(history)}
        step = folder / "notes" / str(number + 1)
        extract = [_extraction(arcs[name], session, number) for name, session in sessions.items()]
        extracted = _answers(step / "extracted", extract, answer)
        pending: dict[str, list[tuple[int, str]]] = {}
        refine: list[Mapping[str, Any]] = []
        for name, session in sessions.items():
            notes, matched = _merged(_last(books[name]), extracted[_id(arcs[name], "Synthesis", number)], session)
            books[name].after[session["id"]] = notes
            pending[name] = []
            for place in matched:
                row = _refinement(arcs[name], session, notes[place], len(pending[name]))
                pending[name].append((place, row["id"]))
                refine.append(row)
        refined = _answers(step / "refined", refine, answer) if refine else {}
        for name, session in sessions.items():
            _apply(books[name], session, pending[name], refined)
            ids = [_id(arcs[name], "Synthesis", number), *(identity for _, identity in pending[name])]
            spent = sum(_tokens((extracted | refined)[identity]) for identity in ids)
            books[name].tokens[session["id"]] = spent + max(books[name].tokens.values(), default=0)
    return books


def _answers(folder: Path, rows: Sequence[Mapping[str, Any]], answer: Answer) -> dict[str, dict[str, Any]]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    answer(folder, rows)
    return {line["id"]: line for line in Run(folder).predictions}


def _last(book: NoteBook) -> list[Note]:
    return next(reversed(book.after.values()), [])


def _merged(
    notes: Sequence[Note], answer: Mapping[str, Any], session: Mapping[str, Any]
) -> tuple[list[Note], list[int]]:
    """The notes with what is new in a session, and the places of those that the session touches."""
    from rapidfuzz import fuzz, process

    try:
        memories = parse_memories(answer["prediction"])
    except ValueError:  # not in the expected format: nothing is remembered, as in a product that parses it
        memories = []
    merged, matched, day = list(notes), [], session_day(session)
    contents = [note.content for note in notes]
    for memory in memories:
        found = process.extractOne(memory.content, contents, scorer=fuzz.token_set_ratio, score_cutoff=_SAME_TOPIC)
        if found and found[2] not in matched:
            matched.append(found[2])
        elif not found:
            merged.append(Note(memory.content, memory.importance, day))
    return merged, sorted(matched)


def _apply(
    book: NoteBook,
    session: Mapping[str, Any],
    pending: Sequence[tuple[int, str]],
    refined: Mapping[str, Mapping[str, Any]],
) -> None:
    notes = book.after[session["id"]]
    for place, identity in pending:
        text = " ".join(refined[identity]["prediction"].split())
        if text:
            notes[place] = replace(notes[place], content=text, day=session_day(session))


def _lasts(note: Note, day: datetime.date) -> bool:
    days = _DAYS[note.importance]
    return days is None or (day - note.day).days <= days


def _extraction(arc: Mapping[str, Any], session: Mapping[str, Any], number: int) -> dict[str, Any]:
    return _row(arc, session, "Synthesis", number, [])


def _refinement(arc: Mapping[str, Any], session: Mapping[str, Any], note: Note, place: int) -> dict[str, Any]:
    memory = {"content": note.content, "category": None, "importance": None}
    return _row(arc, session, "Refinement", place, [memory])


def _row(
    arc: Mapping[str, Any],
    session: Mapping[str, Any],
    task: str,
    number: int,
    memories: list[dict[str, Any]],
) -> dict[str, Any]:
    """A record of a task of the paper, over a session of an arc."""
    turns = [{"role": turn["role"], "content": turn["content"]} for turn in session["turns"]]
    return {
        "id": _id(arc, task, number),
        "task": f"Recollection{task}",
        "language": arc["language"],
        "relationship": arc["relationship"],
        "companion": arc["companion"],
        "user": arc["user"],
        "persona": arc["persona"],
        "history": turns,
        "memories": memories,
        "instruction": day_text(session["date"]),
        "reference": "-",
        "difficulty": 1,
    }


def _id(arc: Mapping[str, Any], task: str, number: int) -> str:
    return f"{arc['language']}-{int(arc['relationship'][:2]):03}-Recollection{task}-{number + 1:03}"


def _tokens(line: Mapping[str, Any]) -> int:
    return int(line["prompt_tokens"] + line["new_tokens"])
