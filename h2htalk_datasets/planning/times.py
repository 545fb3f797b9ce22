"""Times of a plan: minutes after the first midnight, and the short notation of scenarios for spans of time.

Spans are written as ``Mon-Fri 09:00-13:00; Sat``: days (one, a range, several joined by ``+``, or ``daily``), then
hours, ``morning`` (until 12:00), ``afternoon`` (from 12:00), or nothing for the whole day. Hours may cross midnight.
"""

__all__ = ["DAY", "NOON", "WEEKDAYS", "Calendar", "Span", "inside", "overlap", "times_of"]

import re
from datetime import date, timedelta
from functools import lru_cache
from typing import NamedTuple

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DAY = 24 * 60
"""Minutes of a day."""
NOON = 12 * 60
"""Minutes after midnight at which the afternoon begins."""

_NAMED_HOURS = {"": (0, DAY), "morning": (0, NOON), "afternoon": (NOON, DAY)}
_CLOCK = re.compile(r"([01]\d|2[0-4]):([0-5]\d)")


class Span(NamedTuple):
    """A span of time in minutes after the first midnight; the end does not belong to it."""

    start: int
    end: int


class Calendar(NamedTuple):
    """The days of a plan: the first date, and how many (at most seven, so weekdays are unique)."""

    start: date
    days: int

    def spans(self, text: str) -> tuple[Span, ...]:
        """Parse spans in the notation of this module; spans that touch are joined.

        Raises:
            ValueError: the text is not in the notation, or names a day that the plan does not have.

        """
        return _spans(self, text)

    def minute(self, text: str) -> int:
        """Parse a point in time such as ``Wed 12:00``.

        Raises:
            ValueError: as for :meth:`spans`.

        """
        day, _, clock = text.strip().partition(" ")
        return self.day(day) * DAY + _minute(clock)

    def day(self, name: str) -> int:
        """Number of a day, from 0, by its three letters.

        Raises:
            ValueError: the plan does not have this day.

        """
        if name not in WEEKDAYS or (place := (WEEKDAYS.index(name) - self.start.weekday()) % 7) >= self.days:
            raise ValueError(f"{name!r} is not a day of this plan; the days are: {', '.join(self.names())}")
        return place

    def names(self) -> list[str]:
        """The weekdays by their three letters, in order."""
        return [WEEKDAYS[(self.start.weekday() + number) % 7] for number in range(self.days)]

    def dates(self) -> list[str]:
        """The days as people write them, such as ``Mon 3 November``."""
        dates = [self.start + timedelta(number) for number in range(self.days)]
        return [f"{name} {one.day} {one:%B}" for name, one in zip(self.names(), dates, strict=True)]

    def text(self, span: Span) -> str:
        """A span as plans write it, such as ``Tue 14:30-15:15``."""
        return f"{self.names()[span.start // DAY]} {_clock(span.start)}-{_clock(span.end)}"


def overlap(one: Span, other: Span) -> bool:
    """Whether two spans have a minute in common."""
    return one.start < other.end and other.start < one.end


def inside(span: Span, spans: tuple[Span, ...]) -> bool:
    """Whether a span lies within one of the others."""
    return any(other.start <= span.start and span.end <= other.end for other in spans)


def times_of(hours: str) -> tuple[int, int]:
    """Parse hours such as ``22:00-06:30`` to minutes after midnight; an end on the next day is above :data:`DAY`.

    Raises:
        ValueError: the text is not in this form.

    """
    if hours in _NAMED_HOURS:
        return _NAMED_HOURS[hours]
    first, _, last = hours.partition("-")
    start, end = _minute(first), _minute(last)
    return start, end if end > start else end + DAY


@lru_cache(maxsize=4096)
def _spans(calendar: Calendar, text: str) -> tuple[Span, ...]:
    spans = []
    for part in text.split(";"):
        days, _, hours = part.strip().partition(" ")
        start, end = times_of(hours.strip())
        spans += [Span(day * DAY + start, day * DAY + end) for day in _days(calendar, days)]
    joined: list[Span] = []
    for span in sorted(spans):
        if joined and span.start <= joined[-1].end:
            joined[-1] = Span(joined[-1].start, max(span.end, joined[-1].end))
        else:
            joined.append(span)
    return tuple(joined)


def _days(calendar: Calendar, text: str) -> list[int]:
    if text == "daily":
        return [*range(calendar.days)]
    days: list[int] = []
    for part in text.split("+"):
        first, _, last = part.partition("-")
        days += range(calendar.day(first), calendar.day(last or first) + 1)
    if not days:
        raise ValueError(f"{text!r} is not a range of days")
    return days


def _minute(clock: str) -> int:
    match = _CLOCK.fullmatch(clock)
    if not match:
        raise ValueError(f"{clock!r} is not a time such as 09:30")
    return int(match[1]) * 60 + int(match[2])


def _clock(minute: int) -> str:
    minute %= DAY
    return f"{minute // 60:02}:{minute % 60:02}"
