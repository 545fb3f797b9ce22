"""A planning problem: days, activities, constraints; and the entries of a plan."""

__all__ = ["Activity", "Constraint", "Entry", "Plan", "Problem", "concerned_labels", "plan_text"]

from collections.abc import Mapping
from datetime import date
from typing import Annotated, NamedTuple

from pydantic import Field

from h2htalk_datasets.planning.constraints import (
    Appointment,
    Budget,
    Deadline,
    Earliest,
    Energy,
    Opening,
    Order,
    People,
    Present,
    PromiseFree,
    PromiseTime,
    Rest,
    Rule,
    Sleep,
    Travel,
    Weather,
)
from h2htalk_datasets.planning.times import Calendar, Span
from h2htalk_datasets.schema import Strict, Text


class Activity(Strict):
    """Something that has to be in the plan exactly once.

    Attributes:
        label: by which plans name it.
        minutes: its length.
        who: those of the two people who take part.
        place: where it is, if that matters.

    """

    label: Text
    minutes: Annotated[int, Field(ge=5, le=720)]
    who: People
    place: Text | None = None


class Constraint(Strict):
    """A sentence of the prompt, next to its machine-readable form."""

    say: Text
    rule: Rule


class Problem(Strict):
    """What a plan is checked against.

    Attributes:
        start: the first day.
        days: number of days, 3 to 7.
        activities: what has to be in the plan.
        constraints: what holds, in the order of the prompt.
        now: in the second turn, the point in time (such as ``Wed 12:00``) up to which everything has happened.

    """

    start: date
    days: Annotated[int, Field(ge=3, le=7)]
    activities: tuple[Activity, ...]
    constraints: tuple[Constraint, ...]
    now: str | None = None

    @property
    def calendar(self) -> Calendar:
        """The days."""
        return Calendar(self.start, self.days)

    @property
    def by_label(self) -> dict[str, Activity]:
        """The activities by label."""
        return {activity.label: activity for activity in self.activities}

    @property
    def now_minute(self) -> int:
        """`now` in minutes after the first midnight; 0 in the first turn."""
        return self.calendar.minute(self.now) if self.now else 0


class Entry(NamedTuple):
    """One line of a plan."""

    label: str
    span: Span


Plan = Mapping[str, Entry]
"""The entries of a plan by label."""


def plan_text(problem: Problem, plan: Plan) -> str:
    """A plan as the prompt asks for it, in the order of time."""
    entries = sorted(plan.values(), key=lambda entry: (entry.span, entry.label))
    return "\n".join(f"{problem.calendar.text(entry.span)} {entry.label}" for entry in entries)


def concerned_labels(problem: Problem, rule: Rule) -> tuple[str, ...]:
    """The labels of the activities that a constraint is about."""
    if isinstance(rule, Appointment | Sleep | PromiseFree):
        return tuple(one.label for one in problem.activities if set(rule.who) & set(one.who))
    if isinstance(rule, Travel):
        return tuple(one.label for one in problem.activities if one.place in rule.between)
    if isinstance(rule, Opening) and rule.place:
        return tuple(one.label for one in problem.activities if one.place == rule.place)
    return _named_labels(rule)


def _named_labels(rule: Rule) -> tuple[str, ...]:
    """The labels that a constraint names itself."""
    if isinstance(rule, Energy):
        return rule.demanding
    if isinstance(rule, Budget):
        return tuple(rule.prices)
    if isinstance(rule, Order):
        return rule.first, rule.then
    if isinstance(rule, Deadline | Earliest):
        return (rule.activity,)
    assert isinstance(rule, Opening | Present | Weather | PromiseTime | Rest)
    return rule.activities
