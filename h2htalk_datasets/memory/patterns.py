"""Match an answer against the forms of a value, whatever the spelling of its numbers, times and dates."""

__all__ = ["SENTENCE_END", "contains", "normalize"]

import re
import unicodedata
from collections.abc import Sequence
from functools import cache

SENTENCE_END = "|"
"""The token between two sentences; a form never matches across it."""

_MAX_GAP = 6  # tokens that "..." in a form may skip

_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = {word: 10 * n for n, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)}
_NUMBERS = {word: n for n, word in enumerate(_UNITS)} | _TENS
# "first" and "second" stay words: "the first to come" is not the number 1.
_ORDINALS = {
    word: n
    for n, word in enumerate(
        "third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
        "sixteenth seventeenth eighteenth nineteenth twentieth".split(),
        3,
    )
} | {"thirtieth": 30}
_MONTHS = "january february march april may june july august september october november december".split()
_MONTH = {name: name for name in _MONTHS} | {name[:3]: name for name in _MONTHS} | {"sept": "september"}
_WEEKDAY = {  # "sat", "sun" and "wed" are words of their own
    "mon": "monday", "tue": "tuesday", "tues": "tuesday", "thu": "thursday", "thur": "thursday",
    "thurs": "thursday", "fri": "friday",
}  # fmt: skip
_TOKEN = re.compile(r"\d+:\d\d|\d+\.\d{1,2}\b|\d{1,3}(?:[.,]\d{3})+\b|\d+|[^\W\d_]+\*?|[.!?;\n]+|,")
_ABBREVIATION = re.compile(r"\b(jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|mr|mrs|ms|dr|st|no)\.(?= )")
_ISO_DATE = re.compile(r"\b\d{4}-(\d\d)-(\d\d)\b")
_SPACED_TIME = re.compile(r"(?<![\d:.,] )(?<![\d:.,])\b([1-9]|1[0-2]) ([1-5]\d)\b(?![:.,]?\d)")
_CLOCK_RELATIONS = ("past", "after", "to")  # between the minutes and the hour of a spoken time
_CLOCK = re.compile(r"\b(\d{1,2})(?:[:.](\d\d))? ?([ap])m\b|\b(\d{1,2})[:.](\d\d)\b(?!\.\d)")


def normalize(text: str) -> list[str]:
    """Split a text into tokens in which equal numbers, times and dates are equal.

    ``half past six``, ``6:30 pm`` and ``18:30`` all give ``6:30``; ``12th of March`` gives ``march 12``.
    Times lose the half of the day, and a full hour is its number alone.

    Args:
        text: an answer, or a form of :func:`contains`.

    Returns:
        Lower-case tokens without a plural s; ``|`` between sentences.

    """
    text = (
        unicodedata.normalize("NFKC", text.replace("½", " and a half"))
        .casefold()
        .replace("’", "'")
        .replace("o'clock", "oclock")
    )
    text = re.sub(r"\b([ap])\.m\b\.?", r"\1m", text)
    text = re.sub(r"\bfirst day of\b", "first of", text)
    text = re.sub(r"\b(no|nope),", r"\1;", text)  # "No, Tuesday" says Tuesday
    text = _ABBREVIATION.sub(r"\1", text)
    text = _ISO_DATE.sub(lambda m: f"{_MONTHS[(int(m[1]) - 1) % 12]} {int(m[2])}", text)
    text = _CLOCK.sub(_clock, text)
    text = _SPACED_TIME.sub(r"\1:\2", text)
    text = re.sub(r"'s\b", "", text).replace("'", "").replace("-", " ")
    text = re.sub(r"(\d)(?:st|nd|rd|th)\b", r"\1", text)
    tokens = [SENTENCE_END if token[0] in ".!?;\n" else token for token in _TOKEN.findall(text)]
    # "half past eleven, forty minutes" has two numbers, so commas count until number words are read.
    numbers = [re.sub(r"[.,](?=\d{3})", "", token) for token in _numbers(tokens) if token != ","]
    return [_singular(token) for token in _dates(_times(numbers))]


def contains(tokens: Sequence[str], form: str) -> list[int]:
    """Find a form in a text.

    Args:
        tokens: the text, from :func:`normalize`.
        form: words in a row; ``word*`` matches every word with this beginning, ``...`` skips up to six words.

    Returns:
        The positions at which the form begins.

    """
    parts = _parts(form)
    return [start for start in range(len(tokens)) if _matches_at(tokens, start, parts)]


@cache
def _parts(form: str) -> list[list[str]]:
    """The tokens of a form between its gaps."""
    parts = [[token for token in normalize(part) if token != SENTENCE_END] for part in form.split("...")]
    return [part for part in parts if part]


def _matches_at(tokens: Sequence[str], start: int, parts: Sequence[Sequence[str]]) -> bool:
    if not parts:
        return False
    end = start + len(parts[0])
    if end > len(tokens) or not all(map(_same, tokens[start:end], parts[0])):
        return False
    if len(parts) == 1:
        return True
    for following in range(end, min(end + _MAX_GAP, len(tokens) - 1) + 1):
        if following < len(tokens) and _matches_at(tokens, following, parts[1:]):
            return True
        if following < len(tokens) and tokens[following] == SENTENCE_END:
            return False
    return False


def _same(token: str, pattern: str) -> bool:
    return token.startswith(pattern[:-1]) if pattern.endswith("*") else token == pattern


def _clock(match: re.Match[str]) -> str:
    hour, minute = int(match[1] or match[4]), match[2] or match[5] or "00"
    return _time(hour, int(minute)) if hour < 25 and int(minute) < 60 else match[0]


def _time(hour: int, minute: int) -> str:
    hour = (hour - 1) % 12 + 1
    return f"{hour}:{minute:02}" if minute else str(hour)


def _numbers(tokens: list[str]) -> list[str]:
    """Write number words as digits: ``two hundred and forty`` gives ``240``."""
    out: list[str] = []
    i = 0
    while i < len(tokens):
        value, used = _number_at(tokens, i)
        minutes, used_by_minutes = _number_at(tokens, i + used) if 0 < value < 13 else (0, 0)
        if used and used_by_minutes and 10 <= minutes < 60 and minutes % 5 == 0:  # "six fifteen"
            out.append(_time(value, minutes))
            i += used + used_by_minutes
        elif used:
            out.append(str(value))
            i += used
        else:
            out.append(str(_ORDINALS.get(tokens[i], tokens[i])))
            i += 1
    return out


def _number_at(tokens: Sequence[str], start: int) -> tuple[int, int]:
    """The value of the number word at a position, and how many tokens it has (0: none)."""
    total = current = 0
    i = start
    while i < len(tokens):
        token = tokens[i]
        if token in _TENS and (i == start or current % 100 == 0):
            current += _TENS[token]
            following = tokens[i + 1] if i + 1 < len(tokens) else ""
            unit = _NUMBERS.get(following, _ORDINALS.get(following, 0)) or {"first": 1, "second": 2}.get(following, 0)
            if 0 < unit < 10:
                current += unit
                i += 1
        elif token in _NUMBERS and (i == start or (current and current % 100 == 0) or (total and not current)):
            current += _NUMBERS[token]
        elif token == "hundred" and (i == start or 0 < current < 100):  # "a hundred", "twelve hundred"
            current = max(current, 1) * 100
        elif token == "thousand" and (current or i == start):  # "a thousand"
            total, current = max(current, 1) * 1000, 0
        elif token != "and" or not (current or total) or current % 100 or not _is_number(tokens, i + 1):
            break
        i += 1
    return total + current, i - start


def _is_number(tokens: Sequence[str], i: int) -> bool:
    return i < len(tokens) and tokens[i] in _NUMBERS


def _times(tokens: list[str]) -> list[str]:
    """Write spoken times with digits: ``quarter to 6`` gives ``5:45``."""
    pairs = zip(tokens, [*tokens[1:], ""], strict=False)
    tokens = [t for t, following in pairs if t not in ("minute", "minutes") or following not in _CLOCK_RELATIONS]
    out: list[str] = []
    i = 0
    while i < len(tokens):
        minute, relation, hour = (tokens[i : i + 3] + [""] * 3)[:3]
        minutes = {"quarter": 15, "half": 30}.get(minute, int(minute) if minute.isdigit() else -1)
        is_range = relation == "to" and (minutes % 5 or (out and out[-1] in ("from", "between")))  # "from 5 to 8"
        is_after = relation == "past" or (relation == "after" and minutes % 5 == 0)  # "5 after 9", but not "2 after 9"
        spoken = (is_after or relation == "to") and 0 < minutes < 60 and not is_range
        if spoken and hour.isdigit() and 0 < int(hour) < 25:
            out.append(_time(int(hour), minutes) if is_after else _time(int(hour) + 11, 60 - minutes))
            i += 3
        elif tokens[i] in ("noon", "midday", "midnight"):
            out.append("12")
            i += 1
        else:
            if tokens[i] != "oclock" and not (tokens[i] in ("am", "pm") and out and out[-1].isdigit()):
                out.append(tokens[i])
            i += 1
    return out


def _dates(tokens: list[str]) -> list[str]:
    """Write dates as month and day, and short names of weekdays and months in full."""
    out: list[str] = []
    i = 0
    while i < len(tokens):
        if tokens[i] in ("first", "second") and tokens[i + 1 : i + 2] == ["of"] and _month(tokens, i + 2):
            tokens[i] = str(1 + (tokens[i] == "second"))
        gap = 2 if tokens[i + 1 : i + 2] == ["of"] else 1
        if _is_day(tokens[i]) and _month(tokens, i + gap):
            out += [_month(tokens, i + gap), tokens[i]]
            i += gap + 1
        elif _month(tokens, i) and i + 1 < len(tokens) and tokens[i + 1] == "the" and _is_day((*tokens, "")[i + 2]):
            out.append(_month(tokens, i))
            i += 2
        elif _month(tokens, i) and i + 1 < len(tokens) and _is_day(tokens[i + 1]):
            out.append(_month(tokens, i))
            i += 1
        else:
            out.append(_WEEKDAY.get(tokens[i], tokens[i]))
            i += 1
    return out


def _is_day(token: str) -> bool:
    return token.isdigit() and 1 <= int(token) <= 31


def _month(tokens: Sequence[str], i: int) -> str:
    return _MONTH.get(tokens[i], "") if i < len(tokens) else ""


def _singular(token: str) -> str:
    if token.endswith(("xes", "ches", "shes")):
        return token[:-2]
    return token[:-1] if len(token) > 3 and token.endswith("s") and not token.endswith("ss") else token
