"""The answer formats of the tasks: parse an answer, say what is wrong with its format, remove its labels.

The corpus checks use this module for references, the scorer for predictions.
"""

__all__ = [
    "FactMemory",
    "TimedLine",
    "format_error",
    "is_sentinel",
    "parse_day",
    "parse_memories",
    "parse_steps",
    "strip_scaffold",
]

import re
from itertools import pairwise
from typing import NamedTuple

from h2htalk_datasets.schema import Record, minute_of
from h2htalk_datasets.tasks import MEMORY_CATEGORIES, NO_KEY_INFORMATION, TASKS
from h2htalk_datasets.words import words

_CLOCK = r"([01]\d|2[0-3]):([0-5]\d)"
_TIMED = re.compile(rf"^{_CLOCK} (\S.*)$")
_STEP = re.compile(rf"^(\d)\. {_CLOCK} (\S.*)$")
_MEMORY = re.compile(r"Memory Content: (.+)\nMemory Category: (.+)\nMemory Importance: (.+)")
_SCAFFOLD = re.compile(
    r"^(?:Memory Content: |Memory Category: .*$|Memory Importance: .*$|\d\. (?:\d\d:\d\d )?|\d\d:\d\d )"
    r"|^(?:记忆内容：|记忆类别：.*$|记忆重要性：.*$)",
    re.MULTILINE,
)
# Answers are untrusted text. Both patterns run in time linear in its length: the first matches a run of stops only from
# the first stop, the second does not cross line ends.
_SENTENCE_END = re.compile(  # a space, a closing quote or an emoji may follow
    r"(?<![.!?…])[.!?…]+(?=\s|$|[\"'’”)*]|(?![–—…])[^\x00-\x7f\w])|[。！？]+"
)
_LIST_ITEM = re.compile(r"^[^\S\n]*(?:[-*•]|\d+[.)])\s", re.MULTILINE)


class TimedLine(NamedTuple):
    """One line of a day or one step: minutes after midnight, and the activity."""

    minute: int
    text: str


class FactMemory(NamedTuple):
    """One extracted memory; importance 0 (about a week), 1 (about three months) or 2 (lasting)."""

    content: str
    category: str
    importance: int


def format_error(record: Record, text: str) -> str | None:
    """Say how an answer violates the format of its task.

    Every answer must not be empty and must keep the task's word limit. ItineraryMiddle must parse as a day,
    ItineraryAdvanced as steps within the slot, RecollectionSynthesis as memories. ItineraryBasic must be prose,
    ItineraryResponse at most two sentences.

    Args:
        record: the record that the text answers.
        text: a prediction or a reference.

    Returns:
        One line that names the first violation, or None.

    """
    if not text.strip():
        return "empty"
    limit = TASKS[record.task].word_limit
    count = len(words(text))
    if limit is not None and count > limit:
        return f"{count} words, the limit is {limit}"
    try:
        _check_form(record, text)
    except ValueError as error:
        return str(error)
    return None


def parse_day(text: str) -> list[TimedLine]:
    """Parse an ItineraryMiddle answer: 5 to 8 lines ``HH:MM activity``, optionally one closing note in parentheses.

    Raises:
        ValueError: the text has another format; the message says where.

    """
    lines = _lines(text)
    if lines and lines[-1].startswith("(") and lines[-1].endswith(")"):
        lines = lines[:-1]
    day = []
    for line in lines:
        match = _TIMED.match(line)
        if not match:
            raise ValueError(f"not a line 'HH:MM activity': {line!r}")
        day.append(TimedLine(int(match[1]) * 60 + int(match[2]), match[3]))
    if not 5 <= len(day) <= 8:
        raise ValueError(f"{len(day)} timed lines, expected 5 to 8")
    _check_ascending(day)
    if "sleep" not in day[-1].text.lower() or day[-1].minute < 20 * 60:
        raise ValueError("the last line does not bring sleep at or after 20:00")
    return day


def parse_steps(text: str, start: int | None = None, end: int | None = None) -> list[TimedLine]:
    """Parse an ItineraryAdvanced answer: 3 to 5 lines ``N. HH:MM text``.

    Args:
        text: the answer.
        start: minute after midnight at which the first step must begin; None does not check it.
        end: minute after which no step may begin (the next activity); None does not check it.

    Raises:
        ValueError: the text has another format; the message says where.

    """
    steps = []
    for number, line in enumerate(_lines(text), 1):
        match = _STEP.match(line)
        if not match or int(match[1]) != number:
            raise ValueError(f"not step {number} as '{number}. HH:MM text': {line!r}")
        steps.append(TimedLine(int(match[2]) * 60 + int(match[3]), match[4]))
    if not 3 <= len(steps) <= 5:
        raise ValueError(f"{len(steps)} steps, expected 3 to 5")
    _check_ascending(steps)
    if start is not None and steps[0].minute != start:
        raise ValueError("the first step does not begin at the slot's time")
    if end is not None and steps[-1].minute > end:
        raise ValueError("a step begins after the next activity")
    return steps


def parse_memories(text: str) -> list[FactMemory]:
    """Parse a RecollectionSynthesis answer; the sentinel ``No key information extracted.`` gives an empty list.

    Raises:
        ValueError: the text has another format; the message says where.

    """
    if is_sentinel(text):
        return []
    memories = []
    for block in re.split(r"\n\s*\n", text.strip()):
        match = _MEMORY.fullmatch("\n".join(line.strip() for line in block.splitlines()))
        if not match:
            raise ValueError(f"not the three lines Memory Content, Memory Category, Memory Importance: {block[:60]!r}")
        content, category, importance = match.groups()
        if category not in MEMORY_CATEGORIES:
            raise ValueError(f"unknown memory category {category!r}")
        if importance not in ("0", "1", "2"):
            raise ValueError(f"memory importance {importance!r} is not 0, 1 or 2")
        memories.append(FactMemory(content, category, int(importance)))
    return memories


def is_sentinel(text: str) -> bool:
    """Whether a RecollectionSynthesis answer says, in any language, that there is nothing to remember."""
    return text.strip() in NO_KEY_INFORMATION.values()


def strip_scaffold(text: str) -> str:
    """Remove labels, times and step numbers, so that only the answer's own words are compared."""
    return re.sub(r"\n{2,}", "\n", _SCAFFOLD.sub("", text)).strip()


def _check_form(record: Record, text: str) -> None:
    if record.task == "ItineraryMiddle":
        parse_day(text)
    elif record.task == "ItineraryAdvanced":
        slot = next(index for index, entry in enumerate(record.schedule) if entry.current)
        start, *following = [minute_of(entry.time) for entry in record.schedule[slot:]]
        parse_steps(text, start, following[0] if following else None)
    elif record.task == "RecollectionSynthesis":
        parse_memories(text)
    elif record.task == "ItineraryResponse" and _sentence_count(text) > 2:
        raise ValueError("more than two sentences")
    elif record.task == "ItineraryBasic" and _LIST_ITEM.search(text):
        raise ValueError("a list, not prose")


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _check_ascending(lines: list[TimedLine]) -> None:
    for earlier, later in pairwise(lines):
        if later.minute <= earlier.minute:
            raise ValueError(f"times do not ascend at {later.text!r}")


def _sentence_count(text: str) -> int:
    """Number of sentences; the last one may end without punctuation, as in chat messages."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    return len(ends) + bool(re.search(r"\w", text[ends[-1] if ends else 0 :]))
