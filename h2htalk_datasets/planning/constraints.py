"""The vocabulary of constraints: one class per kind, each with the fields that its check needs.

Fields that are called `when`, `open`, `dry` or `free` are spans of time in the notation of :mod:`.times`.
"""

__all__ = [
    "KINDS",
    "Appointment",
    "Budget",
    "Deadline",
    "Earliest",
    "Energy",
    "Opening",
    "Order",
    "People",
    "Present",
    "Price",
    "PromiseFree",
    "PromiseTime",
    "Rest",
    "Rule",
    "Sleep",
    "Travel",
    "Weather",
]

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from h2htalk_datasets.schema import Strict, Text


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Labels = Annotated[tuple[Text, ...], Field(min_length=1)]
People = Annotated[tuple[Text, ...], Field(min_length=1, max_length=2), BeforeValidator(_as_tuple)]
"""One or both of the two people; the sources write one as a plain name."""


class Appointment(Strict):
    """Somebody is busy: no activity of these people may overlap; with a place, travel to and from it counts."""

    kind: Literal["appointment"] = "appointment"
    who: People
    when: Text
    place: Text | None = None


class Opening(Strict):
    """A place, or what some activities need, is open at certain times only."""

    kind: Literal["opening"] = "opening"
    place: Text | None = None
    activities: tuple[Text, ...] = ()
    open: Text

    @model_validator(mode="after")
    def _check_subject(self) -> "Opening":
        if bool(self.place) == bool(self.activities):
            raise ValueError("give either place or activities")
        return self


class Present(Strict):
    """A third person must be there, and can be there at certain times only."""

    kind: Literal["present"] = "present"
    person: Text
    activities: Labels
    when: Text


class Travel(Strict):
    """The way between two places takes time, in both directions."""

    kind: Literal["travel"] = "travel"
    between: tuple[Text, Text]
    minutes: Annotated[int, Field(ge=5, le=720)]


class Sleep(Strict):
    """Somebody sleeps at these hours, such as ``22:30-06:30``, on all days or in the nights after some `days`."""

    kind: Literal["sleep"] = "sleep"
    who: People
    hours: Text
    days: Text | None = None


class Energy(Strict):
    """Of the demanding activities, at most one (or `most`) fits into a day or a half day; halves meet at 12:00."""

    kind: Literal["energy"] = "energy"
    demanding: Labels
    per: Literal["day", "half day"] = "day"
    most: Annotated[int, Field(ge=1)] = 1


class Price(Strict):
    """What an activity costs if it starts at these times; without `when` at all other times."""

    cost: Annotated[int, Field(ge=0)]
    when: Text | None = None


class Budget(Strict):
    """The costs of all these activities together are limited; the first price whose times fit is taken."""

    kind: Literal["budget"] = "budget"
    most: Annotated[int, Field(ge=0)]
    prices: dict[Text, Annotated[tuple[Price, ...], Field(min_length=1)]]


class Weather(Strict):
    """Activities that take place outdoors need dry weather from beginning to end."""

    kind: Literal["weather"] = "weather"
    activities: Labels
    dry: Text


class Order(Strict):
    """One activity ends before another begins, at least `minutes` earlier."""

    kind: Literal["order"] = "order"
    first: Text
    then: Text
    minutes: Annotated[int, Field(ge=0)] = 0


class Rest(Strict):
    """Between the days of any two of these activities lie at least `days` other days; 0: not on the same day."""

    kind: Literal["rest"] = "rest"
    activities: Annotated[tuple[Text, ...], Field(min_length=2)]
    days: Annotated[int, Field(ge=0, le=5)] = 1


class PromiseFree(Strict):
    """A promise to keep time free: no activity of these people may overlap."""

    kind: Literal["promise_free"] = "promise_free"
    who: People
    free: Text


class PromiseTime(Strict):
    """A promise to do something at a certain time: the activities lie within these times."""

    kind: Literal["promise_time"] = "promise_time"
    activities: Labels
    when: Text


class Deadline(Strict):
    """An activity ends by a point in time, such as ``Thu 12:00``."""

    kind: Literal["deadline"] = "deadline"
    activity: Text
    by: Text


class Earliest(Strict):
    """An activity does not begin before a point in time."""

    kind: Literal["earliest"] = "earliest"
    activity: Text
    at: Text


Rule = Annotated[
    Appointment
    | Opening
    | Present
    | Travel
    | Sleep
    | Energy
    | Budget
    | Weather
    | Order
    | Rest
    | PromiseFree
    | PromiseTime
    | Deadline
    | Earliest,
    Field(discriminator="kind"),
]
"""A constraint in its machine-readable form."""

KINDS: dict[str, str] = {
    "appointment": "fixed appointment",
    "opening": "opening hours",
    "present": "who must be there",
    "travel": "travel time",
    "sleep": "sleep",
    "energy": "energy",
    "budget": "budget",
    "weather": "weather",
    "order": "order",
    "rest": "rest between",
    "promise_free": "promise: time kept free",
    "promise_time": "promise: done at a time",
    "deadline": "deadline",
    "earliest": "not before",
}
"""Kinds of constraints with their labels."""
