"""Memory strategies: what a model is shown of earlier conversations when a question is asked.

A strategy observes the sessions of one relationship in order, and gives a context for each question. A team's own
memory system is a class with the same two methods, or a server with two endpoints (see :class:`ServerMemory`).
"""

__all__ = ["BUILT_IN", "NOTES", "MemoryStrategy", "Question", "Session", "strategy_factory"]

import importlib
import importlib.util
import json
import secrets
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from h2htalk_datasets.errors import H2HTalkError, did_you_mean, one_line
from h2htalk_datasets.memory.history import num_tokens, session_text

Session = Mapping[str, Any]
"""id, date (``2026-03-12``), time (``21:40``), user, companion (names), turns (list of role and content)."""

Question = Mapping[str, Any]
"""id, date, user, companion (names), message."""

NOTES = "notes"
"""The strategy that needs the model itself, see :mod:`h2htalk_metric.memory.notes`."""

BUILT_IN = ("none", "window", "full", "retrieval", NOTES)

_SERVER_SECONDS = 60


class MemoryStrategy(Protocol):
    """What remembers; one instance per relationship."""

    def observe(self, session: Session) -> None:
        """Take notice of a session that has just ended."""

    def context(self, question: Question) -> str:
        """Return the text that the model is shown before the message of a question."""


class NoMemory:
    """Shows nothing."""

    def observe(self, session: Session) -> None:
        """Forget the session."""

    def context(self, question: Question) -> str:
        """Return an empty text."""
        return ""


class FullHistory:
    """Shows all sessions.

    Args:
        max_tokens: of the last turns that are shown, by :func:`num_tokens`; None for all.

    """

    def __init__(self, max_tokens: int | None = None) -> None:
        self._max_tokens = max_tokens
        self._lines: list[str] = []

    def observe(self, session: Session) -> None:
        """Keep the session's lines."""
        text = session_text(session, session["user"], session["companion"])
        self._lines += ["", *text.splitlines()] if self._lines else text.splitlines()

    def context(self, question: Question) -> str:
        """Return the last lines, as many whole lines as the limit allows."""
        first, size = 0, 0
        if self._max_tokens is not None:
            first = len(self._lines)
            while first and (size := size + num_tokens(self._lines[first - 1])) <= self._max_tokens:
                first -= 1
        shown = "\n".join(self._lines[first:]).strip()
        return f"Your earlier conversations:\n{shown}" if shown else ""


class Retrieval:
    """Shows the pairs of turns that are nearest to the message.

    Args:
        encode: a list of texts to unit vectors, shape (texts, dimension).
        top_k: pairs that are shown, in the order of time.

    """

    def __init__(self, encode: Callable[[list[str]], np.ndarray], top_k: int = 8) -> None:
        self._encode, self._top_k = encode, top_k
        self._pairs: list[str] = []
        self._vectors: list[np.ndarray] = []

    def observe(self, session: Session) -> None:
        """Embed each pair of turns."""
        pairs = []
        for start in range(0, len(session["turns"]), 2):
            pair = {**session, "turns": session["turns"][start : start + 2]}
            pairs.append(session_text(pair, session["user"], session["companion"]))
        self._pairs += pairs
        self._vectors.append(self._encode(pairs))

    def context(self, question: Question) -> str:
        """Return the nearest pairs with their dates."""
        if not self._pairs:
            return ""
        similarity = np.concatenate(self._vectors) @ self._encode([question["message"]])[0]
        nearest = sorted(np.argsort(-similarity, kind="stable")[: self._top_k])
        return "From your earlier conversations:\n" + "\n\n".join(self._pairs[place] for place in nearest)


class ServerMemory:
    """A memory system behind HTTP.

    ``POST URL/observe`` gets ``{"arc": ..., "session": ...}``, ``POST URL/context`` gets ``{"arc": ...,
    "question": ...}`` and answers ``{"context": "..."}``. For each `arc` the server has a memory of its own, which is
    empty at first.

    Args:
        url: without a final slash.
        relationship: begins the `arc`; random characters follow, so that each attempt begins with an empty memory.

    """

    def __init__(self, url: str, relationship: str) -> None:
        self._url, self._arc = url, f"{relationship}-{secrets.token_hex(4)}"

    def observe(self, session: Session) -> None:
        """Send the session."""
        self._post("observe", {"session": session})

    def context(self, question: Question) -> str:
        """Ask for the context."""
        reply = self._post("context", {"question": question})
        if not isinstance(reply, dict) or not isinstance(reply.get("context"), str):
            raise H2HTalkError(f'{self._url}/context did not answer {{"context": "..."}}')
        return reply["context"]

    def _post(self, path: str, content: Mapping[str, Any]) -> Any:
        body = json.dumps({"arc": self._arc, **content}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._url}/{path}", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=_SERVER_SECONDS) as reply:
                return json.loads(reply.read() or b"null")
        except (OSError, ValueError) as error:
            raise H2HTalkError(f"{self._url}/{path}: {one_line(error)}") from error


def strategy_factory(
    name: str, *, window_tokens: int = 1000, top_k: int = 8, embedder: str = "BAAI/bge-m3"
) -> Callable[[str], MemoryStrategy]:
    """Return what creates a strategy for one relationship.

    Args:
        name: one of :data:`BUILT_IN` except ``notes``; ``package.module:Class`` or ``FILE.py:Class``; or the address of
            a server.
        window_tokens: of the strategy ``window``.
        top_k: of the strategy ``retrieval``.
        embedder: of the strategy ``retrieval``.

    Returns:
        A function of the relationship's name.

    Raises:
        H2HTalkError: the name is unknown, or the class cannot be imported.

    """
    if name.startswith(("http://", "https://")):
        return lambda relationship: ServerMemory(name.rstrip("/"), relationship)
    if ":" in name:
        created = _import(name)
        return lambda relationship: created()
    if name == "retrieval":
        from h2htalk_metric.metrics.similarity import load_embedder

        encode = load_embedder(embedder).encode
        return lambda relationship: Retrieval(encode, top_k)
    built_in: dict[str, Callable[[], MemoryStrategy]] = {
        "none": NoMemory,
        "full": FullHistory,
        "window": lambda: FullHistory(window_tokens),
    }
    if name not in built_in:
        raise H2HTalkError(
            f"unknown memory strategy {name!r}.{did_you_mean(name, BUILT_IN)} There are: {', '.join(BUILT_IN)}, "
            "MODULE:CLASS, FILE.py:CLASS and http://..."
        )
    return lambda relationship: built_in[name]()


def _import(name: str) -> Callable[[], MemoryStrategy]:
    module_name, _, class_name = name.rpartition(":")
    try:
        if module_name.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(module_name).stem, module_name)
            module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
            sys.modules[module.__name__] = module
            spec.loader.exec_module(module)  # type: ignore[union-attr]
        else:
            module = importlib.import_module(module_name)
        created = getattr(module, class_name)
    except Exception as error:  # a team's own code may raise anything
        raise H2HTalkError(
            f"cannot import the memory strategy {name!r} ({type(error).__name__}: {one_line(error)})"
        ) from None
    if not all(callable(getattr(created, method, None)) for method in ("observe", "context")):
        raise H2HTalkError(f"{name} needs the methods observe(session) and context(question)")
    return created
