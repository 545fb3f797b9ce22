"""What a strategy gives the model for each question, computed once and kept in ``contexts.jsonl``."""

__all__ = ["Context", "append_contexts", "read_contexts", "write_contexts"]

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from h2htalk_datasets.errors import H2HTalkError, one_line
from h2htalk_datasets.memory.history import visible_sessions
from h2htalk_datasets.progress import progress_bar
from h2htalk_metric.memory.strategies import MemoryStrategy

_MAX_CHARACTERS = 2_000_000


class Context(NamedTuple):
    """The context of one question, or why there is none.

    Attributes:
        text: what the model is shown; None if the strategy failed.
        error: one line.
        attempt: the attempt in which it was made, from 1.
        tokens: that the model spent on it before the question (notes).

    """

    text: str | None
    error: str | None = None
    attempt: int = 1
    tokens: int = 0


def read_contexts(file: Path) -> dict[str, Context]:
    """Read the contexts of earlier attempts, by the id of the question; empty if there are none."""
    contexts: dict[str, Context] = {}
    for line in file.read_bytes().splitlines() if file.exists() else ():
        try:
            value = json.loads(line)
        except ValueError:  # the last line of an attempt that was killed
            continue
        identity = value.pop("id")
        contexts[identity] = Context(**value)
    return contexts


def append_contexts(file: Path, contexts: Mapping[str, Context]) -> None:
    """Add contexts to a file; a later line of a question replaces an earlier one."""
    lines = [json.dumps({"id": key, **context._asdict()}, ensure_ascii=False) for key, context in contexts.items()]
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab+") as handle:
        if handle.tell():
            handle.seek(-1, os.SEEK_END)
            if handle.read(1) != b"\n":  # the last line of an attempt that was killed
                handle.write(b"\n")
        handle.write("".join(f"{line}\n" for line in lines).encode())


def write_contexts(
    file: Path,
    arcs: Mapping[str, Sequence[Mapping[str, Any]]],
    histories: Mapping[str, Sequence[dict[str, Any]]],
    create: Callable[[str], MemoryStrategy],
    attempt: int = 1,
) -> dict[str, Context]:
    """Let a strategy observe all arcs, and keep its context of each question.

    An arc whose contexts are on disk is not observed again. One in which the strategy failed is.

    Args:
        file: ``contexts.jsonl``; each arc is added as soon as it is observed.
        arcs: the questions by relationship.
        histories: the sessions by relationship.
        create: see :func:`h2htalk_metric.memory.strategies.strategy_factory`.
        attempt: of the contexts that are made now.

    Returns:
        The contexts of all questions by id.

    """
    contexts = {identity: context for identity, context in read_contexts(file).items() if context.error is None}
    with progress_bar("arcs", len(arcs)) as progress:
        for relationship, questions in arcs.items():
            if any(question["id"] not in contexts for question in questions):
                made = _observe(questions, histories[relationship], create)
                made = {key: context._replace(attempt=attempt) for key, context in made.items()}
                made = {key: context for key, context in made.items() if key not in contexts}
                append_contexts(file, made)
                contexts |= made
            progress.update()
    return contexts


def _observe(
    questions: Sequence[Mapping[str, Any]],
    history: Sequence[dict[str, Any]],
    create: Callable[[str], MemoryStrategy],
) -> dict[str, Context]:
    """The contexts of one arc; a strategy that fails once is not asked again, since it may have lost sessions."""
    contexts: dict[str, Context] = {}
    error: str | None = None
    try:
        strategy = create(questions[0]["relationship"])
    except Exception as failure:
        error = _reason("cannot be created", failure)
    observed = 0
    # In the order of time, so that a question never sees what comes after it.
    for question in sorted(questions, key=lambda each: len(visible_sessions(each, history))):
        visible = visible_sessions(question, history)
        names = {key: question[key] for key in ("user", "companion")}
        try:
            for session in visible[observed:] if error is None else ():
                strategy.observe({**session, **names})
            observed = len(visible)
        except Exception as failure:  # a team's own code may raise anything
            error = _reason("observe failed", failure)
        if error is not None:
            contexts[question["id"]] = Context(None, error)
            continue
        asked = {key: question[key] for key in ("id", "date", "user", "companion", "message")}
        contexts[question["id"]] = _context(strategy, asked)
    return contexts


def _context(strategy: MemoryStrategy, question: Mapping[str, Any]) -> Context:
    try:
        text = strategy.context(question)
    except Exception as failure:
        return Context(None, _reason("context failed", failure))
    if not isinstance(text, str):
        return Context(None, f"context is {type(text).__name__}, not a text")
    if len(text) > _MAX_CHARACTERS:
        return Context(None, f"context has {len(text):,} characters, more than {_MAX_CHARACTERS:,}")
    return Context(text)


def _reason(what: str, failure: Exception) -> str:
    if isinstance(failure, H2HTalkError):
        return f"{what}: {failure}"
    return f"{what}: {type(failure).__name__}: {one_line(failure)}"
