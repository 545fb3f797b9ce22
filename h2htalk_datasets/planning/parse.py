"""Read a plan out of an answer: tolerant about form, strict about labels, days and times."""

__all__ = ["ParsedPlan", "parse_plan"]

import re
from dataclasses import dataclass, field

from h2htalk_datasets.planning.problem import Entry, Problem
from h2htalk_datasets.planning.times import DAY, WEEKDAYS, Span

_DAYS = {name.lower(): name for name in WEEKDAYS} | {
    "monday": "Mon",
    "tuesday": "Tue",
    "tues": "Tue",
    "wednesday": "Wed",
    "weds": "Wed",
    "thursday": "Thu",
    "thur": "Thu",
    "thurs": "Thu",
    "friday": "Fri",
    "saturday": "Sat",
    "sunday": "Sun",
}
_DAY = r"(?P<day>" + "|".join(sorted(_DAYS, key=len, reverse=True)) + r")\b\.?"
_CLOCK = r"(\d{1,2})(?:[:.h](\d{2}))?\s*([ap]\.?m\b\.?)?"
_DATE = (
    r"(?:[\s,]*\(?\d{1,2}(?:st|nd|rd|th)?\.?(?:\s+of)?\s+[a-z]{3,9}\.?(?:\s+\d{4})?\)?"
    r"|[\s,]*\(?[a-z]{3,9}\s+\d{1,2}(?!\d|[:.]\d)\)?)?"
)
_DASH = r"\s*(?:-|–|—|−|to|until|till)\s*"
_TIMES = re.compile(rf"[\s,:;|@]*(?:at\s+|from\s+)?{_CLOCK}{_DASH}{_CLOCK}(?!\d)", re.IGNORECASE)
_LINE_DAY = re.compile(rf"{_DAY}{_DATE}", re.IGNORECASE)
_SPEAKER = re.compile(rf"^[^\d:]{{1,40}}:\s*(?={_DAY})", re.IGNORECASE)  # "Tika: Mon 08:00-09:00 ..."
_MARKUP = re.compile(r"[*_`#>|]+")
_BULLET = re.compile(r"^\s*(?:[-–—•·+]|\(?\d{1,2}[.)](?=\s))\s*")


@dataclass
class ParsedPlan:
    """What was read out of an answer.

    Attributes:
        entries: the first entry of each required activity, by label.
        repeated: labels that have a second entry at another time.
        unknown: lines with a day and times, but without a required label; they are ignored.
        unreadable: lines that name a required activity without a readable day and times; they are ignored.

    """

    entries: dict[str, Entry] = field(default_factory=dict)
    repeated: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    @property
    def parsed(self) -> bool:
        """Whether at least one entry was read."""
        return bool(self.entries)


def parse_plan(text: str, problem: Problem) -> ParsedPlan:
    """Read the entries of a plan.

    Days may be short or long and with a date, or stand above their lines; times may have 24 hours or am and pm, and any
    dash; bullets, numbers, bold, table marks and a name with a colon in front are ignored. A label may stand in a
    longer text, in any case.

    Args:
        text: a model's answer.
        problem: whose labels and days are read.

    """
    result = ParsedPlan()
    labels = sorted(problem.by_label, key=len, reverse=True)
    current_day: str | None = None
    for raw in text.splitlines():
        line = _SPEAKER.sub("", _BULLET.sub("", _MARKUP.sub(" ", raw)).strip())
        day_match = _LINE_DAY.match(line)
        rest = line[day_match.end() :] if day_match else line
        times = _TIMES.match(rest)
        if day_match:
            day = _DAYS[day_match["day"].lower()]
            if not times and not _label_in(rest, labels):
                current_day = day
                continue
        else:
            day = current_day or ""
        label = _label_in(rest[times.end() :] if times else line, labels)
        span = _span(problem, day, times) if times else None
        if label and span:
            _add(result, Entry(label, span))
        elif label:
            result.unreadable.append(raw.strip())
        elif times and day:
            result.unknown.append(raw.strip())
    return result


def _add(result: ParsedPlan, entry: Entry) -> None:
    first = result.entries.setdefault(entry.label, entry)
    if first != entry and entry.label not in result.repeated:
        result.repeated.append(entry.label)


def _label_in(text: str, labels: list[str]) -> str | None:
    """The longest label that the text contains as whole words; the first one of several."""
    words = f" {_normalized(text)} "
    places = {label: words.find(f" {_normalized(label)} ") for label in labels}
    contained = [label for label in labels if places[label] >= 0]
    # Labels are sorted by length, so of two that begin at the same place the longer one is meant.
    return min(contained, key=lambda label: places[label], default=None)


def _normalized(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold().replace("’", "'").replace("'", "")))


def _span(problem: Problem, day: str, times: re.Match[str]) -> Span | None:
    """The span of a line; None if the plan does not have the day or a time does not exist."""
    if day not in problem.calendar.names():
        return None
    first_hour, first_minute, first_half, last_hour, last_minute, last_half = times.groups()
    end = _minute(last_hour, last_minute, last_half)
    start = _minute(first_hour, first_minute, first_half or last_half)
    if start is None or end is None:
        return None
    if not first_half and last_half and start > end and (same := _minute(first_hour, first_minute, None)) is not None:
        start = same  # 11-1 pm begins in the morning
    midnight = problem.calendar.day(day) * DAY
    return Span(midnight + start, midnight + end + (DAY if end <= start else 0))


def _minute(hour: str, minute: str | None, half: str | None) -> int | None:
    number, minutes = int(hour), int(minute or 0)
    if half:
        if not 1 <= number <= 12:
            return None if number > 24 or minutes > 59 else number * 60 + minutes
        number = number % 12 + (12 if half.lower().startswith("p") else 0)
    return None if number > 24 or minutes > 59 or (number == 24 and minutes) else number * 60 + minutes
