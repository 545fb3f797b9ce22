"""Let a model answer the questions of CompanionMemory with a memory strategy.

RUN/probes/memory/LENGTH/STRATEGY/strategy.json    the strategy and its options
RUN/probes/memory/LENGTH/STRATEGY/contexts.jsonl   what the model was shown for each question, or why there is nothing
RUN/probes/memory/LENGTH/STRATEGY/answers/1/       a run over the questions; 2, 3, ... are retries of failed contexts
RUN/probes/memory/LENGTH/STRATEGY/notes/           the steps of the strategy `notes`
"""

__all__ = ["memory_folders", "remember", "rows_by_arc"]

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import write_atomically
from h2htalk_datasets.generation.config import Settings
from h2htalk_datasets.generation.distributed.state import DistributedState
from h2htalk_datasets.generation.engines.base import Engine
from h2htalk_datasets.generation.engines.make import make_engine
from h2htalk_datasets.generation.run import generate
from h2htalk_datasets.loading import load_memory
from h2htalk_datasets.memory.history import day_text, history_of, visible_sessions
from h2htalk_datasets.memory.schema import read_small_talk
from h2htalk_datasets.tasks import MEMORY
from h2htalk_metric.memory.contexts import Context, append_contexts, read_contexts, write_contexts
from h2htalk_metric.memory.notes import take_notes
from h2htalk_metric.memory.options import Remembering
from h2htalk_metric.memory.strategies import NOTES, strategy_factory
from h2htalk_metric.probes.model import check_same_model
from h2htalk_metric.runs.run import Run

Rows = Sequence[Mapping[str, Any]]


def remember(settings: Settings, remembering: Remembering, out: Path, state: DistributedState) -> Path:
    """Answer all questions; continues where an earlier attempt stopped.

    Args:
        settings: model, persona and sampling.
        remembering: the strategy.
        out: the run folder; created if it does not exist. It may be a run of the same model over the eleven tasks.
        state: the ranks of the job.

    Returns:
        The folder of the strategy.

    Raises:
        H2HTalkError: an option is wrong, or the folder has other answers.

    """
    settings = replace(settings, probe=MEMORY)
    arcs = rows_by_arc(remembering.arcs)
    small_talk = read_small_talk()
    histories = {name: history_of(rows, remembering.length, small_talk) for name, rows in arcs.items()}
    folder = remembering.folder(out)
    create = None
    if remembering.memory != NOTES:
        create = strategy_factory(
            remembering.memory,
            window_tokens=remembering.window_tokens,
            top_k=remembering.top_k,
            embedder=remembering.embedder,
        )
    if state.is_main:
        _write_options(folder, remembering)
    state.barrier()
    engine = make_engine(settings, state)
    _check_model(out, engine)
    if create is None:
        contexts = _note_contexts(folder, settings, arcs, histories, engine, state)
    else:
        own = (
            write_contexts(folder / "contexts.jsonl", arcs, histories, create, _attempt(folder))
            if state.is_main
            else {}
        )
        contexts = state.broadcast(own)
    _answer(folder, settings, arcs, contexts, engine, state)
    return folder


def rows_by_arc(num_arcs: int | None = None) -> dict[str, list[dict[str, Any]]]:
    """The questions of CompanionMemory by relationship, from the first one on."""
    arcs: dict[str, list[dict[str, Any]]] = {}
    for row in load_memory():
        arcs.setdefault(row["relationship"], []).append(row)
    return dict(list(arcs.items())[:num_arcs])


def memory_folders(out: Path) -> list[Path]:
    """The folders of all strategies in a run folder."""
    return sorted(file.parent for file in (out / "probes" / "memory").glob("*/*/strategy.json"))


def _write_options(folder: Path, remembering: Remembering) -> None:
    file, options = folder / "strategy.json", remembering.recorded()
    if file.exists():
        recorded = json.loads(file.read_text("utf-8"))
        differences = [
            f"{key}: {recorded.get(key)} -> {options.get(key)}"
            for key in sorted(recorded.keys() | options.keys())
            if recorded.get(key) != options.get(key)
        ]
        if differences:
            raise H2HTalkError(
                f"{folder} was made with other options; use the same, or move the folder away. "
                f"Differences: {'; '.join(differences)}"
            )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps(options, indent=1, ensure_ascii=False) + "\n")


def _check_model(out: Path, engine: Engine) -> None:
    """Check that everything in a run folder is by one model."""
    runs = [out, *(run for folder in memory_folders(out) for run in _answer_folders(folder))]
    if recorded := next((Run(path).manifest["model"] for path in runs if Run(path).folder.exists), None):
        check_same_model(recorded, engine.identity())


def _note_contexts(
    folder: Path,
    settings: Settings,
    arcs: Mapping[str, Rows],
    histories: Mapping[str, Sequence[dict[str, Any]]],
    engine: Engine,
    state: DistributedState,
) -> dict[str, Context]:
    def answer(step: Path, rows: Rows) -> None:
        if not Run(step).complete:
            generate(replace(settings, probe=None), step, state, engine=engine, records=rows)
            state.barrier()

    books = take_notes(folder, {name: rows[0] for name, rows in arcs.items()}, histories, answer)
    contexts = {}
    for name, rows in arcs.items():
        for row in rows:
            last = visible_sessions(row, histories[name])[-1]["id"]
            text = books[name].context(last, datetime.date.fromisoformat(row["date"]))
            contexts[row["id"]] = Context(text, tokens=books[name].tokens[last])
    if state.is_main and not (folder / "contexts.jsonl").exists():
        append_contexts(folder / "contexts.jsonl", contexts)
    return contexts


def _answer(
    folder: Path,
    settings: Settings,
    arcs: Mapping[str, Rows],
    contexts: Mapping[str, Context],
    engine: Engine,
    state: DistributedState,
) -> None:
    """Answer the questions of each attempt that has a context; a complete attempt is left as it is."""
    attempts = sorted({context.attempt for context in contexts.values() if context.error is None})
    for attempt in attempts:
        rows = [
            _with_context(row, str(contexts[row["id"]].text))
            for of_arc in arcs.values()
            for row in of_arc
            if contexts[row["id"]].error is None and contexts[row["id"]].attempt == attempt
        ]
        path = folder / "answers" / str(attempt)
        path.parent.mkdir(exist_ok=True)
        if not Run(path).complete:
            generate(settings, path, state, engine=engine, records=rows)
    if state.is_main:
        read = read_contexts(folder / "contexts.jsonl")
        failed = [context.error for context in read.values() if context.error is not None]
        if failed:
            print(
                f"{len(failed)} questions have no context and are unscored, the same command tries them again; "
                f"the first reason: {failed[0]}"
            )


def _with_context(row: Mapping[str, Any], context: str) -> dict[str, Any]:
    names = ("id", "relationship", "companion", "user", "persona", "language", "message")
    return {key: row[key] for key in names} | {"context": context, "today": day_text(row["date"])}


def _attempt(folder: Path) -> int:
    """The number of the attempt that new contexts belong to: answers that have begun keep their questions."""
    return 1 + len(_answer_folders(folder))


def _answer_folders(folder: Path) -> list[Path]:
    return sorted((file.parent for file in folder.glob("answers/*/run.json")), key=lambda path: int(path.name))
