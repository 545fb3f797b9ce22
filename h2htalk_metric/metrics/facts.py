"""Does an English answer contradict the facts of its prompt? It checks names, times, days and numbers, outside S.

S hardly sees facts: an answer with every number and name replaced keeps nearly its whole score (see
:mod:`h2htalk_metric.metrics.sensitivity`). This check reads the surface only:

- a name contradicts the prompt if the prompt does not have it;
- a time, day or number contradicts the prompt if the reference uses one of the prompt's, and the answer states another
  one in its place that the prompt does not have.

It cannot see that two people of the prompt are exchanged.
"""

__all__ = ["DAYS", "KINDS", "NUMBER_WORDS", "Facts", "contradictions", "facts_of"]

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

KINDS = ("name", "time", "day", "number")
"""Kinds of facts, in the order of :class:`Facts`."""

NUMBER_WORDS = "one two three four five six seven eight nine ten eleven twelve".split()
"""English words of the numbers 1 to 12, in order."""
_TEENS = "thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_VALUES = {word: value for value, word in enumerate([*NUMBER_WORDS, *_TEENS], 1)}
_VALUES |= {word: 10 * value for value, word in enumerate(_TENS, 2)}
_HOUR = rf"(?:{'|'.join(NUMBER_WORDS)}|1[0-2]|[1-9])"
DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
"""English weekdays, lower case."""
_MONTHS = "january february march april june july august september october november december".split()  # May is a verb

_CLOCK = re.compile(r"\b([01]?\d|2[0-3])[:.]([0-5]\d)\b(?!\d)")
_PAST = re.compile(rf"\b(half|quarter|twenty-five|twenty|ten|five)(?: (past|to))? ({_HOUR})\b", re.IGNORECASE)
_AT_HOUR = re.compile(
    rf"\b(?:at|by|till|until|from|before|after|around|about|since) ({_HOUR})(?: o['’]clock| ?[ap]\.?m\b)?"
    r"(?=[,.;:!?)](?!\d)|$| (?:and|or|on|in|then|when|with|if|to|sharp|tonight|tomorrow|today|every)\b"
    r"| (?:they|we|you|he|she|it)\b)",
    re.IGNORECASE,
)
_HOUR_MARK = re.compile(rf"\b({_HOUR}) ?(?:o['’]clock|[ap]\.?m\b)", re.IGNORECASE)
_NUMBER = re.compile(
    rf"\b(?:(?:{'|'.join(_TENS)})-(?:{'|'.join(NUMBER_WORDS[:9])})|{'|'.join(_VALUES)}|\d[\d,]*(?:\.\d+)?)\b", re.I
)
_NAME = re.compile(r"(?<![\w'’-])[A-Z][\w-]*[a-zà-ÿ][\w-]*")
_INSIDE_SENTENCE = re.compile(r"[^\W\d_][,'’]?[ \"“‘]+$")  # what stands before a word that does not begin a sentence
# Capitalised words that anybody may use, whatever the prompt says.
_COMMON = frozenset("christmas christmases easter god mr mrs ms dr may x-ray ok tv".split())
# These tasks invent a day, so their times, days and numbers are their own.
_FREE_TASKS = ("ItineraryBasic", "ItineraryMiddle", "ItineraryAdvanced")
_SMALL = 3  # "one", "two or three" are hardly ever facts
_PAST_MINUTES = {"half": 30, "quarter": 15, "twenty-five": 25, "twenty": 20, "ten": 10, "five": 5}


class Facts(NamedTuple):
    """Facts that a text states, each kind as a mapping from its normal form to how the text writes it.

    Attributes:
        name: lower-case names of people and places, without a possessive ending.
        time: minutes after twelve, 0..719; morning and evening are not told apart.
        day: weekdays and months, lower case.
        number: other numbers above three, as text without separators.

    """

    name: dict[str, str]
    time: dict[int, str]
    day: dict[str, str]
    number: dict[str, str]


@lru_cache(maxsize=4096)  # records of one relationship share the system message
def facts_of(text: str) -> Facts:
    """Names, times, days and numbers of an English text.

    A capitalised word at the start of a sentence may be any word. It counts as a name only if the text also has it
    inside a sentence.
    """
    times = _times(text)
    used = [span for spans in times.values() for span in spans]
    days = {
        match[0].lower(): match[0]
        for match in re.finditer(rf"\b({'|'.join(DAYS + _MONTHS)})\b", text, re.IGNORECASE)
        if match[0][0].isupper()
    }
    numbers = {}
    for match in _NUMBER.finditer(text):
        inside_time = any(start <= match.start() < end for start, end in used)
        value = _value(match[0])
        if not inside_time and value > _SMALL:
            numbers[f"{value:g}"] = match[0]
    spelled = {minute: text[spans[0][0] : spans[0][1]] for minute, spans in times.items()}
    return Facts(_names(text), spelled, days, numbers)


def contradictions(answer: str, record: Mapping[str, Any]) -> dict[str, list[str]]:
    """Facts of an answer that contradict its prompt, by kind.

    Args:
        answer: of a model, English.
        record: with task, messages and reference. In ItineraryBasic, ItineraryMiddle and ItineraryAdvanced, which
            invent a day, only names are checked.

    Returns:
        Kind (see :data:`KINDS`) to the facts as the answer writes them; only kinds with at least one.

    """
    messages = [message["content"] for message in record["messages"]]
    prompt_words = frozenset().union(*map(_words, messages))
    stated, expected = facts_of(answer), facts_of(record["reference"])
    result = {"name": [text for name, text in stated.name.items() if not _mentioned(name, prompt_words)]}
    for kind in KINDS[1:] if record["task"] not in _FREE_TASKS else ():
        of_answer = getattr(stated, kind)
        of_prompt = {fact for message in messages for fact in getattr(facts_of(message), kind)}
        used = of_prompt & getattr(expected, kind).keys()
        if used and not used & of_answer.keys():
            result[kind] = [text for fact, text in of_answer.items() if fact not in of_prompt]
    return {kind: texts for kind, texts in result.items() if texts}


def _times(text: str) -> dict[int, list[tuple[int, int]]]:
    """Minutes after twelve to the places in the text."""
    times: dict[int, list[tuple[int, int]]] = {}

    def add(minutes: int, match: re.Match[str]) -> None:
        times.setdefault(minutes % 720, []).append(match.span())

    for match in _CLOCK.finditer(text):
        add(60 * int(match[1]) + int(match[2]), match)
    for match in _PAST.finditer(text):
        part, direction, hour = match[1].lower(), match[2], int(_value(match[3]))
        if direction or part == "half":  # "half seven" is half past seven; "ten seven" is no time
            add(60 * hour + (-1 if (direction or "").lower() == "to" else 1) * _PAST_MINUTES[part], match)
    for pattern in (_AT_HOUR, _HOUR_MARK):
        for match in pattern.finditer(text):
            add(60 * int(_value(match[1])), match)
    return times


def _names(text: str) -> dict[str, str]:
    inside: dict[str, str] = {}
    starts: dict[str, str] = {}
    for match in _NAME.finditer(text):
        name = match[0].lower()
        if name.removesuffix("s") in DAYS or name in _MONTHS or name in _COMMON:
            continue
        is_inside = _INSIDE_SENTENCE.search(text, max(0, match.start() - 5), match.start())
        (inside if is_inside else starts)[name] = match[0]
    return inside | {name: written for name, written in starts.items() if name in inside}


def _value(number: str) -> float:
    """The value of a number in digits or in English words below one hundred."""
    word = number.lower()
    if word[0].isdigit():
        return float(word.replace(",", ""))
    return float(sum(_VALUES[part] for part in word.split("-")))


@lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[^\W\d_]+", text.lower()))


def _mentioned(name: str, words: frozenset[str]) -> bool:
    """Whether a prompt has the name, its singular, or all parts of a name with a hyphen."""
    parts = re.findall(r"[^\W\d_]+", name)
    return all(part in words or part.removesuffix("s") in words for part in parts)
