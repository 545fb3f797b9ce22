"""The forms three tasks must be answered in: read them, and take their scaffold off.

The gates read references with these, the contract figures read predictions.
"""

__all__ = [
    "FactMemory",
    "TimedLine",
    "contract_fault",
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

_TIMED = re.compile(r"^([01]\d|2[0-3]):([0-5]\d) (\S.*)$")
_STEP = re.compile(r"^(\d)\. ([01]\d|2[0-3]):([0-5]\d) (\S.*)$")
_LABELS = ("Memory Content", "Memory Category", "Memory Importance")
_SCAFFOLD = re.compile(
    r"^(?:Memory Content: |Memory Category: .*$|Memory Importance: .*$|\d\. (?:\d\d:\d\d )?|\d\d:\d\d )"
    r"|^(?:记忆内容：|记忆类别：.*$|记忆重要性：.*$)",
    re.MULTILINE,
)


class TimedLine(NamedTuple):
    """A line of a day or a step: minutes after midnight, and what is done."""

    minute: int
    text: str


class FactMemory(NamedTuple):
    """One extracted memory; importance 0 (a week), 1 (three months) or 2 (lasting)."""

    content: str
    category: str
    importance: int


def parse_day(text: str) -> list[TimedLine]:
    """Read an ItineraryMiddle answer: 5 to 8 lines ``HH:MM activity``, maybe one closing note in parentheses.

    Raises:
        ValueError: the text breaks the form; the message says where.

    """
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
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
    _ascending(day)
    if "sleep" not in day[-1].text.lower() or day[-1].minute < 20 * 60:
        raise ValueError("the last line does not bring sleep at or after 20:00")
    return day


def parse_steps(text: str, start: int | None = None, end: int | None = None) -> list[TimedLine]:
    """Read an ItineraryAdvanced answer: 3 to 5 lines ``N. HH:MM text``.

    Args:
        text: the answer.
        start: minute at which the first step must begin, if known.
        end: minute that no step may pass (the next activity's), if known.

    Raises:
        ValueError: the text breaks the form; the message says where.

    """
    steps = []
    for number, line in enumerate((line.strip() for line in text.strip().splitlines() if line.strip()), 1):
        match = _STEP.match(line)
        if not match or int(match[1]) != number:
            raise ValueError(f"not step {number} as '{number}. HH:MM text': {line!r}")
        steps.append(TimedLine(int(match[2]) * 60 + int(match[3]), match[4]))
    if not 3 <= len(steps) <= 5:
        raise ValueError(f"{len(steps)} steps, expected 3 to 5")
    _ascending(steps)
    if start is not None and steps[0].minute != start:
        raise ValueError("the first step does not begin at the slot's time")
    if end is not None and steps[-1].minute > end:
        raise ValueError("a step begins after the next activity")
    return steps


def parse_memories(text: str) -> list[FactMemory]:
    """Read a RecollectionSynthesis answer; the sentinel `No key information extracted.` gives an empty list.

    Raises:
        ValueError: the text breaks the form; the message says where.

    """
    if is_sentinel(text):
        return []
    memories = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in block.splitlines()]
        values = [line.removeprefix(f"{label}: ") for line, label in zip(lines, _LABELS, strict=False)]
        if len(lines) != 3 or any(value == line for value, line in zip(values, lines, strict=True)):
            raise ValueError(f"not the three lines {', '.join(_LABELS)}: {block[:60]!r}")
        if values[1] not in MEMORY_CATEGORIES:
            raise ValueError(f"unknown memory category {values[1]!r}")
        if values[2] not in ("0", "1", "2"):
            raise ValueError(f"memory importance {values[2]!r} is not 0, 1 or 2")
        memories.append(FactMemory(values[0], values[1], int(values[2])))
    return memories


def is_sentinel(text: str) -> bool:
    """Whether a RecollectionSynthesis answer says that there is nothing to keep, in any language."""
    return text.strip() in NO_KEY_INFORMATION.values()


def strip_scaffold(text: str) -> str:
    """Take labels, times and step numbers off a text, so that only its own words are compared."""
    return re.sub(r"\n{2,}", "\n", _SCAFFOLD.sub("", text)).strip()


def _ascending(lines: list[TimedLine]) -> None:
    for before, after in pairwise(lines):
        if after.minute <= before.minute:
            raise ValueError(f"times do not ascend at {after.text!r}")


# Answers are untrusted: a run of stops is tried once, from its first, and a line's own blanks only, so that both stay
# linear in the answer's length.
_SENTENCE_ENDS = re.compile(  # after which a blank, a quote's end or an emoji may come
    r"(?<![.!?…])[.!?…]+(?=\s|$|[\"'’”)*]|(?![–—…])[^\x00-\x7f\w])|[。！？]+"
)
_IDEOGRAPH = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")  # written without blanks; each counts as a word
_BETWEEN = re.compile(r"[()\u3000-\u303f\uff01-\uff0f\uff1a-\uff20]")  # brackets, and the signs of that writing
_LISTED = re.compile(r"^[^\S\n]*(?:[-*•]|\d+[.)])\s", re.MULTILINE)


def contract_fault(record: Record, text: str) -> str | None:
    """Say how an answer breaks its task's form, or None where it keeps it.

    Word limits hold where the task has one; ItineraryMiddle must parse as a day, ItineraryAdvanced as steps within its
    slot, RecollectionSynthesis as memories; ItineraryBasic is prose and ItineraryResponse one or two sentences.
    """
    if not text.strip():
        return "empty"
    return _too_long(record, text) or _malformed(record, text)


def _too_long(record: Record, text: str) -> str | None:
    limit = TASKS[record.task].word_limit
    count = len(_BETWEEN.sub(" ", _IDEOGRAPH.sub(" x ", text)).split())
    return f"{count} words, the limit is {limit}" if limit is not None and count > limit else None


def _malformed(record: Record, text: str) -> str | None:
    try:
        if record.task == "ItineraryMiddle":
            parse_day(text)
        elif record.task == "RecollectionSynthesis":
            parse_memories(text)
        elif record.task == "ItineraryAdvanced":
            here = next(place for place, entry in enumerate(record.schedule) if entry.current)
            after = record.schedule[here + 1 : here + 2]
            parse_steps(text, minute_of(record.schedule[here].time), minute_of(after[0].time) if after else None)
    except ValueError as error:
        return str(error)
    if record.task == "ItineraryResponse" and _sentences(text) > 2:
        return "more than two sentences"
    if record.task == "ItineraryBasic" and _LISTED.search(text):
        return "a list, not prose"
    return None


def _sentences(text: str) -> int:
    """How many sentences; the last one may end without a sign, as in messages."""
    ends = [found.end() for found in _SENTENCE_ENDS.finditer(text)]
    return len(ends) + bool(re.search(r"\w", text[ends[-1] if ends else 0 :]))
