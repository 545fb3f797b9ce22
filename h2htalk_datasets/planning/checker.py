"""Check a plan: which constraints it violates, and what it changes without need."""

__all__ = [
    "BASE_RULES",
    "Violation",
    "changed_labels",
    "check_plan",
    "past_entries",
    "satisfied",
    "unnecessary_changes",
]

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any, NamedTuple

from h2htalk_datasets.planning.constraints import (
    Appointment,
    Budget,
    Deadline,
    Earliest,
    Energy,
    Opening,
    Order,
    Present,
    PromiseFree,
    PromiseTime,
    Rest,
    Sleep,
    Travel,
    Weather,
)
from h2htalk_datasets.planning.problem import Entry, Plan, Problem, concerned_labels
from h2htalk_datasets.planning.times import DAY, NOON, Span, inside, overlap, times_of

BASE_RULES: dict[str, str] = {
    "omission": "activity left out",
    "repetition": "activity planned twice",
    "duration": "wrong length",
    "clash": "two activities at once",
    "past": "change of what has happened",
}
"""Rules of every plan with their labels; they are not counted as constraints."""

_NEEDS_ALL = ("order", "rest", "budget")  # an activity that is left out does not satisfy these


class Violation(NamedTuple):
    """One violation.

    Attributes:
        kind: one of :data:`BASE_RULES`, or the kind of a constraint.
        labels: of the activities that cause it.
        constraint: number of the constraint in the problem, from 0; None for a base rule.

    """

    kind: str
    labels: tuple[str, ...]
    constraint: int | None = None


Conflicts = Iterator[tuple[str, ...]]
"""The labels that violate a constraint together, per violation."""


def check_plan(problem: Problem, plan: Plan, earlier: Plan | None = None) -> list[Violation]:
    """Find all violations of a plan.

    In a second turn, what has happened stays as it was, whether the new plan repeats it or not. Violations that only
    concern what has happened are not counted, because no plan can undo them.

    Args:
        problem: what the plan is checked against.
        plan: entries by label.
        earlier: in a second turn the plan that the new one changes.

    """
    past = past_entries(problem, earlier)
    violations = [Violation("past", (label,)) for label in _changed_past(problem, plan, past)]
    entries = {label: entry for label, entry in {**plan, **past}.items() if label in problem.by_label}
    violations += [Violation("omission", (label,)) for label in problem.by_label if label not in entries]
    violations += [
        Violation("duration", (label,))
        for label, entry in entries.items()
        if entry.span.end - entry.span.start != problem.by_label[label].minutes
    ]
    violations += [
        Violation("clash", (one.label, other.label))
        for one, other in combinations(entries.values(), 2)
        if overlap(one.span, other.span) and _common(problem, one, other)
    ]
    for number, constraint in enumerate(problem.constraints):
        rule = constraint.rule
        violations += [Violation(rule.kind, labels, number) for labels in _CHECKS[type(rule)](rule, problem, entries)]
    return [one for one in violations if one.kind == "past" or not past.keys() >= set(one.labels)]


def past_entries(problem: Problem, earlier: Plan | None) -> dict[str, Entry]:
    """The entries of the earlier plan that have begun by now; they cannot change any more."""
    return {label: entry for label, entry in (earlier or {}).items() if entry.span.start < problem.now_minute}


def satisfied(problem: Problem, plan: Plan, earlier: Plan | None = None) -> dict[int, bool]:
    """Which constraints a plan satisfies, by their number.

    A constraint is satisfied if it is not violated and the plan has an activity that it is about; an order, a rest
    and a budget need all of theirs. In a second turn this is about activities that have not happened yet, and
    constraints without such an activity are left out.
    """
    past = past_entries(problem, earlier)
    violated = {one.constraint for one in check_plan(problem, plan, earlier)}
    results = {}
    for number, constraint in enumerate(problem.constraints):
        planned = [label in plan for label in concerned_labels(problem, constraint.rule) if label not in past]
        if planned:
            complete = all(planned) if constraint.rule.kind in _NEEDS_ALL else any(planned)
            results[number] = complete and number not in violated
    return results


def changed_labels(problem: Problem, plan: Plan, earlier: Plan) -> list[str]:
    """Activities that both plans have, which have not happened yet, at different times."""
    past = past_entries(problem, earlier)
    return [
        label
        for label in problem.by_label
        if label in plan and label in earlier and label not in past and plan[label].span != earlier[label].span
    ]


def unnecessary_changes(problem: Problem, plan: Plan, earlier: Plan) -> list[str]:
    """Activities that the new plan moves although they could have stayed.

    A change is unnecessary if the new plan with this one entry back at its old time has no more violations than the
    new plan itself. Each entry is tested alone, so two entries that have merely changed places are not found.
    """
    before = len(check_plan(problem, plan, earlier))
    return [
        label
        for label in changed_labels(problem, plan, earlier)
        if earlier[label].span.start >= problem.now_minute
        and len(check_plan(problem, {**plan, label: earlier[label]}, earlier)) <= before
    ]


def _changed_past(problem: Problem, plan: Plan, past: Plan) -> list[str]:
    """What the plan moves although it has happened, and what it moves into the past."""
    return [
        label
        for label, entry in plan.items()
        if (label in past and entry.span != past[label].span)
        or (label not in past and entry.span.start < problem.now_minute)
    ]


def _common(problem: Problem, one: Entry, other: Entry) -> set[str]:
    """The people who take part in both."""
    return set(problem.by_label[one.label].who) & set(problem.by_label[other.label].who)


def _of_people(problem: Problem, plan: Plan, people: Iterable[str]) -> list[Entry]:
    return [entry for entry in plan.values() if set(people) & set(problem.by_label[entry.label].who)]


def _overlapping(problem: Problem, plan: Plan, people: Iterable[str], spans: tuple[Span, ...]) -> Conflicts:
    for entry in _of_people(problem, plan, people):
        if any(overlap(entry.span, span) for span in spans):
            yield (entry.label,)


def _outside(labels: tuple[str, ...], plan: Plan, spans: tuple[Span, ...]) -> Conflicts:
    for label in labels:
        if label in plan and not inside(plan[label].span, spans):
            yield (label,)


def _appointment(rule: Appointment, problem: Problem, plan: Plan) -> Conflicts:
    return _overlapping(problem, plan, rule.who, problem.calendar.spans(rule.when))


def _opening(rule: Opening, problem: Problem, plan: Plan) -> Conflicts:
    return _outside(concerned_labels(problem, rule), plan, problem.calendar.spans(rule.open))


def _present(rule: Present, problem: Problem, plan: Plan) -> Conflicts:
    return _outside(rule.activities, plan, problem.calendar.spans(rule.when))


def _travel(rule: Travel, problem: Problem, plan: Plan) -> Conflicts:
    """For each person, between any two activities or appointments at the two places; overlaps are not about travel."""
    people = dict.fromkeys(person for activity in problem.activities for person in activity.who)
    reported = set()
    for person in people:
        stops: list[tuple[Span, str, tuple[str, ...]]] = [
            (entry.span, place, (entry.label,))
            for entry in _of_people(problem, plan, [person])
            if (place := problem.by_label[entry.label].place) in rule.between
        ]
        stops += [
            (span, one.rule.place, ())
            for one in problem.constraints
            if isinstance(one.rule, Appointment) and person in one.rule.who and one.rule.place in rule.between
            for span in problem.calendar.spans(one.rule.when)
        ]
        for (first, from_place, label), (second, to_place, other) in combinations(sorted(stops), 2):
            labels = label + other
            too_close = 0 <= second.start - first.end < rule.minutes
            if from_place != to_place and too_close and labels and labels not in reported:
                reported.add(labels)
                yield labels


def _sleep(rule: Sleep, problem: Problem, plan: Plan) -> Conflicts:
    start, end = times_of(rule.hours)
    if rule.days is None:
        days = [*range(-1, problem.days)]  # the first morning belongs to the night before
    else:
        days = sorted({span.start // DAY + n for span in problem.calendar.spans(rule.days) for n in range(_days(span))})
    return _overlapping(problem, plan, rule.who, tuple(Span(day * DAY + start, day * DAY + end) for day in days))


def _days(span: Span) -> int:
    return (span.end - span.start) // DAY


def _energy(rule: Energy, problem: Problem, plan: Plan) -> Conflicts:
    labels_of: dict[int, list[str]] = {}
    length = DAY if rule.per == "day" else NOON
    for label in rule.demanding:
        if label in plan:
            span = plan[label].span
            for period in range(span.start // length, (span.end - 1) // length + 1):
                labels_of.setdefault(period, []).append(label)
    return (tuple(labels) for _, labels in sorted(labels_of.items()) if len(labels) > rule.most)


def _budget(rule: Budget, problem: Problem, plan: Plan) -> Conflicts:
    planned = tuple(label for label in rule.prices if label in plan)
    if sum(_cost(rule, problem, plan[label]) for label in planned) > rule.most:
        yield planned


def _cost(rule: Budget, problem: Problem, entry: Entry) -> int:
    for price in rule.prices[entry.label]:
        spans = problem.calendar.spans(price.when) if price.when else None
        if spans is None or any(span.start <= entry.span.start < span.end for span in spans):
            return price.cost
    return 0


def _weather(rule: Weather, problem: Problem, plan: Plan) -> Conflicts:
    return _outside(rule.activities, plan, problem.calendar.spans(rule.dry))


def _order(rule: Order, problem: Problem, plan: Plan) -> Conflicts:
    both = {rule.first, rule.then} <= plan.keys()
    if both and plan[rule.then].span.start < plan[rule.first].span.end + rule.minutes:
        yield rule.first, rule.then


def _rest(rule: Rest, problem: Problem, plan: Plan) -> Conflicts:
    planned = [label for label in rule.activities if label in plan]
    for one, other in combinations(planned, 2):
        if abs(plan[one].span.start // DAY - plan[other].span.start // DAY) <= rule.days:
            yield one, other


def _promise_free(rule: PromiseFree, problem: Problem, plan: Plan) -> Conflicts:
    return _overlapping(problem, plan, rule.who, problem.calendar.spans(rule.free))


def _promise_time(rule: PromiseTime, problem: Problem, plan: Plan) -> Conflicts:
    return _outside(rule.activities, plan, problem.calendar.spans(rule.when))


def _deadline(rule: Deadline, problem: Problem, plan: Plan) -> Conflicts:
    if rule.activity in plan and plan[rule.activity].span.end > problem.calendar.minute(rule.by):
        yield (rule.activity,)


def _earliest(rule: Earliest, problem: Problem, plan: Plan) -> Conflicts:
    if rule.activity in plan and plan[rule.activity].span.start < problem.calendar.minute(rule.at):
        yield (rule.activity,)


_CHECKS: Mapping[type, Callable[[Any, Problem, Plan], Conflicts]] = {
    Appointment: _appointment,
    Opening: _opening,
    Present: _present,
    Travel: _travel,
    Sleep: _sleep,
    Energy: _energy,
    Budget: _budget,
    Weather: _weather,
    Order: _order,
    Rest: _rest,
    PromiseFree: _promise_free,
    PromiseTime: _promise_time,
    Deadline: _deadline,
    Earliest: _earliest,
}
