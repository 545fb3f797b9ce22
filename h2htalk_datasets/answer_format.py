"""The answer formats of the tasks: parse an answer, say what is wrong with its format, remove its labels.

The corpus checks use this module for references, the scorer for predictions.
"""

__all__ = [
    "FactMemory",
    "TimedLine",
    "format_error",
    "parse_day",
    "parse_memories",
    "parse_steps",
    "strip_scaffold",
]

import re
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from h2htalk_datasets.languages import LANGUAGES, Language, language_of
from h2htalk_datasets.schema import Record, minute_of
from h2htalk_datasets.tasks import TASKS

_CLOCK = r"([01]\d|2[0-3]):([0-5]\d)"
_TIMED = re.compile(rf"^{_CLOCK} (\S.*)$")
_STEP = re.compile(rf"^(\d)\. {_CLOCK} (\S.*)$")
_LABELS = "|".join(
    f"{content}|{category}.*$|{importance}.*$"
    for content, category, importance in (language.memory_labels for language in LANGUAGES.values())
)
_SCAFFOLD = re.compile(rf"^(?:{_LABELS}|\d\. (?:\d\d:\d\d )?|\d\d:\d\d )", re.MULTILINE)
# Answers are untrusted text. Both patterns run in time linear in its length: the first matches a run of stops only from
# the first stop, the second does not cross line ends.
_SENTENCE_END = re.compile(  # a space, a closing quote or an emoji may follow
    r"(?<![.!?…])[.!?…]+(?=\s|$|[\"'’”)*]|(?![–—…])[^\x00-\x7f\w])|[。！？]+"
)
_LIST_ITEM = re.compile(r"^[^\S\n]*(?:(?:[-*•]|\d+[.)])\s|\d+[、．])", re.MULTILINE)


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

    Every answer must not be empty and must keep the task's limit in words or characters. ItineraryMiddle must parse as
    a day, ItineraryAdvanced as steps within the slot, RecollectionSynthesis as memories. ItineraryBasic must be prose,
    ItineraryResponse at most two sentences.

    Args:
        record: the record that the text answers.
        text: a prediction or a reference.

    Returns:
        One line that names the first violation, or None.

    """
    if not text.strip():
        return "empty"
    language = LANGUAGES[record.language]
    limit = TASKS[record.task].limits.get(language.code)
    if limit is not None and (count := language.count(text)) > limit:
        return f"{count} {language.unit}, the limit is {limit}"
    try:
        _check_form(record, text)
    except ValueError as error:
        return str(error)
    return None


def parse_day(text: str, language: str = "en") -> list[TimedLine]:
    """Parse an ItineraryMiddle answer: 5 to 8 lines ``HH:MM activity``, optionally one closing note in parentheses.

    Args:
        text: the answer.
        language: its code; the last line must have that language's word for sleep.

    Raises:
        ValueError: the text has another format; the message says where.

    """
    lines = _lines(text)
    if lines and lines[-1].startswith(("(", "（")) and lines[-1].endswith((")", "）")):
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
    sleep = language_of(language).sleep
    if sleep not in day[-1].text.lower() or day[-1].minute < 20 * 60:
        raise ValueError(f"the last line does not bring {sleep} at or after 20:00")
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


def parse_memories(text: str, language: str = "en") -> list[FactMemory]:
    """Parse a RecollectionSynthesis answer; the language's sentinel gives an empty list.

    Args:
        text: the answer.
        language: its code; labels, categories and sentinel must be of that language.

    Raises:
        ValueError: the text has another format; the message says where.

    """
    expected = language_of(language)
    if text.strip() == expected.sentinel:
        return []
    memories = []
    for block in re.split(r"\n\s*\n", text.strip()):
        match = _memory_pattern(expected).fullmatch("\n".join(line.strip() for line in block.splitlines()))
        if not match:
            labels = ", ".join(label.rstrip(": ：") for label in expected.memory_labels)
            raise ValueError(f"not the three lines {labels}: {block[:60]!r}")
        content, category, importance = match.groups()
        if category not in expected.categories:
            raise ValueError(f"unknown memory category {category!r}")
        if importance not in ("0", "1", "2"):
            raise ValueError(f"memory importance {importance!r} is not 0, 1 or 2")
        memories.append(FactMemory(content, category, int(importance)))
    return memories


def strip_scaffold(text: str) -> str:
    """Remove labels, times and step numbers, so that only the answer's own words are compared."""
    return re.sub(r"\n{2,}", "\n", _SCAFFOLD.sub("", text)).strip()


def _check_form(record: Record, text: str) -> None:
    if record.task == "ItineraryMiddle":
        parse_day(text, record.language)
    elif record.task == "ItineraryAdvanced":
        slot = next(index for index, entry in enumerate(record.schedule) if entry.current)
        start, *following = [minute_of(entry.time) for entry in record.schedule[slot:]]
        parse_steps(text, start, following[0] if following else None)
    elif record.task == "RecollectionSynthesis":
        parse_memories(text, record.language)
    elif record.task == "ItineraryResponse" and _sentence_count(text) > 2:
        raise ValueError("more than two sentences")
    elif record.task == "ItineraryBasic" and _LIST_ITEM.search(text):
        raise ValueError("a list, not prose")


@cache
def _memory_pattern(language: Language) -> re.Pattern[str]:
    return re.compile(r"\n".join(rf"{label}(.+)" for label in language.memory_labels))


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
