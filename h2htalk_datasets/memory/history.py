"""Bring the sessions of an arc to a length: leave out what no question needs, or add small talk between sessions."""

__all__ = ["LENGTHS", "day_text", "history_of", "num_tokens", "session_day", "session_text", "visible_sessions"]

import datetime
import random
from collections.abc import Mapping, Sequence
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.words import words

LENGTHS = {"arc": None, "2k": 2_000, "8k": 8_000, "32k": 32_000}
"""Tokens of a history by the value of ``--length``; None leaves the arc as it is written."""

Session = Mapping[str, Any]


def history_of(
    rows: Sequence[Mapping[str, Any]], length: str, small_talk: Sequence[Sequence[Mapping[Any, str]]]
) -> list[dict[str, Any]]:
    """The sessions of one arc, brought to a length; the same arguments always give the same sessions.

    A short history leaves out pairs of turns without evidence, the oldest first. A long one has small talk between the
    sessions, late in the evening of the days between them.

    Args:
        rows: the questions of one arc, from :func:`h2htalk_datasets.memory.rows.memory_rows`.
        length: a key of :data:`LENGTHS`.
        small_talk: conversations to choose from, without repetition.

    Returns:
        Sessions as in the column `sessions`. Each turn also has ``number``, its place in the written session.

    Raises:
        H2HTalkError: the length is unknown, or there is not enough small talk for it.

    """
    if length not in LENGTHS:
        raise H2HTalkError(f"unknown length {length!r}; use one of: {', '.join(LENGTHS)}")
    longest = max(rows, key=lambda row: len(row["sessions"]))["sessions"]
    sessions = [
        {**session, "turns": [{**turn, "number": n} for n, turn in enumerate(session["turns"], 1)]}
        for session in longest
    ]
    limit = LENGTHS[length]
    if limit is None:
        return sessions
    if _size(sessions) > limit:
        needed = {(place["session"], place["turn"]) for row in rows for place in row["evidence"]}
        return _shortened(sessions, limit, needed)
    return _stretched(sessions, limit, small_talk, seed=rows[0]["relationship"])


def visible_sessions(row: Mapping[str, Any], history: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The part of a history that comes before a question."""
    ids = [session["id"] for session in row["sessions"]]
    last = max(place for place, session in enumerate(history) if session["id"] in ids)
    # Before the day of the question there can only be small talk after that.
    return [*history[: last + 1], *(session for session in history[last + 1 :] if session["date"] < row["date"])]


def session_text(session: Session, user: str, companion: str) -> str:
    """A session as a model reads it: its date, then one line per turn."""
    names = {"user": user, "companion": companion}
    lines = [f"{names[turn['role']]}: {turn['content']}" for turn in session["turns"]]
    return "\n".join([f"{day_text(session['date'])}, {session['time']}", *lines])


def day_text(date: str) -> str:
    """A day as prompts write it: ``2026-03-12`` is ``Thursday 12 March 2026``."""
    day = datetime.date.fromisoformat(date)
    return f"{day:%A} {day.day} {day:%B %Y}"


def session_day(session: Session) -> datetime.date:
    """The day of a session."""
    return datetime.date.fromisoformat(session["date"])


def num_tokens(text: str) -> int:
    """Length of a text in tokens, by a rule that is the same for all models: four tokens for three words."""
    return len(words(text)) * 4 // 3


def _size(sessions: Sequence[Session]) -> int:
    return sum(num_tokens(turn["content"]) for session in sessions for turn in session["turns"])


def _shortened(sessions: list[dict[str, Any]], limit: int, needed: set[tuple[str, int]]) -> list[dict[str, Any]]:
    """Leave out pairs of turns (user and companion) without evidence, oldest first, until the limit is met."""
    size = _size(sessions)
    shorter = []
    for session in sessions:
        turns = []
        for first, second in zip(session["turns"][::2], session["turns"][1::2], strict=True):
            if size > limit and not needed & {(session["id"], turn["number"]) for turn in (first, second)}:
                size -= num_tokens(first["content"]) + num_tokens(second["content"])
            else:
                turns += [first, second]
        if turns:
            shorter.append({**session, "turns": turns})
    return shorter


def _stretched(
    sessions: list[dict[str, Any]], limit: int, small_talk: Sequence[Sequence[Mapping[Any, str]]], seed: str
) -> list[dict[str, Any]]:
    """Add small talk after sessions in turn until the limit is met."""
    random_order = random.Random(seed).sample(range(len(small_talk)), len(small_talk))
    size = _size(sessions)
    added: list[list[int]] = [[] for _ in sessions]
    for number, talk in enumerate(random_order):
        length = sum(num_tokens(text) for turn in small_talk[talk] for text in turn.values())
        if size + length > limit:
            break
        size += length
        added[number % len(sessions)].append(talk)
    else:
        raise H2HTalkError(f"there is not enough small talk for a history of {limit} tokens; use a shorter --length")
    longer = []
    for session, following, talks in zip(sessions, [*sessions[1:], None], added, strict=True):
        longer.append(session)
        start = session_day(session)
        end = session_day(following) if following else start + datetime.timedelta(1)
        days = max(1, (end - start).days)
        for number, talk in enumerate(talks):
            # Evenly over the days between; on the day of the session itself later in the evening.
            day = start + datetime.timedelta(number * days // len(talks))
            turns = [{"role": role, "content": text} for turn in small_talk[talk] for role, text in turn.items()]
            longer.append(
                {
                    "id": f"small-talk-{talk + 1}",
                    "date": day.isoformat(),
                    "time": f"23:{10 + number:02}",
                    "turns": [{**turn, "number": n} for n, turn in enumerate(turns, 1)],
                }
            )
    return longer
