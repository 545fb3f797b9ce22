"""The YAML sources of CompanionPlanning: scenarios of two turns, with a valid plan for each."""

__all__ = ["LEVELS", "Change", "Scenario", "level_of", "read_scenarios"]

from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from h2htalk_datasets.planning.checker import check_plan
from h2htalk_datasets.planning.constraints import Rule
from h2htalk_datasets.planning.parse import parse_plan
from h2htalk_datasets.planning.problem import Activity, Constraint, Plan, Problem, concerned_labels
from h2htalk_datasets.planning.times import DAY
from h2htalk_datasets.probes.schema import read_entries
from h2htalk_datasets.schema import Strict, Text

_FOLDER = Path(__file__).parent

LEVELS: dict[str, range] = {"easy": range(4, 7), "middle": range(7, 10), "hard": range(10, 15)}
"""Levels of difficulty by the number of constraints in the first turn."""


class NamedConstraint(Constraint):
    """A constraint that a change may remove by its name."""

    id: str | None = None


class Change(Strict):
    """What changes in mid-week.

    Attributes:
        now: when it happens, such as ``Wed 12:00``; entries that have begun before stay as they are.
        say: what the user says about it.
        remove: names of constraints that do not hold any more.
        add: constraints that hold from now on.
        cancel: labels of activities that are not needed any more.
        activities: new activities.
        plan: a valid plan for the second turn.

    """

    now: Text
    say: Text
    remove: tuple[Text, ...] = ()
    add: tuple[Constraint, ...] = ()
    cancel: tuple[Text, ...] = ()
    activities: tuple[Activity, ...] = ()
    plan: Text


class Scenario(Strict):
    """Several days of two people.

    Attributes:
        slug: name of the scenario.
        relationship: the relationship of the corpus that the two people come from.
        start: first day.
        days: number of days.
        opening: how the user opens the conversation.
        activities: what has to be in the plan.
        constraints: what holds.
        plan: a valid plan for the first turn.
        change: the second turn.

    """

    slug: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    relationship: Text
    companion: Text
    user: Text
    start: date
    days: Annotated[int, Field(ge=3, le=7)]
    opening: Text
    activities: Annotated[tuple[Activity, ...], Field(min_length=2)]
    constraints: Annotated[tuple[NamedConstraint, ...], Field(min_length=4, max_length=14)]
    plan: Text
    change: Change

    @property
    def level(self) -> str:
        """``easy``, ``middle`` or ``hard``."""
        return level_of(len(self.constraints))

    def problem(self, turn: int) -> Problem:
        """What plans of a turn, 1 or 2, are checked against."""
        plain = [Constraint(say=one.say, rule=one.rule) for one in self.constraints]
        days: dict[str, Any] = {"start": self.start, "days": self.days}
        if turn == 1:
            return Problem(activities=self.activities, constraints=tuple(plain), **days)
        change = self.change
        kept = [one for one, named in zip(plain, self.constraints, strict=True) if named.id not in change.remove]
        activities = [one for one in self.activities if one.label not in change.cancel]
        return Problem(
            activities=(*activities, *change.activities), constraints=(*kept, *change.add), now=change.now, **days
        )

    def shipped_plan(self, turn: int) -> Plan:
        """The valid plan of a turn."""
        text = self.plan if turn == 1 else self.change.plan
        return parse_plan(text, self.problem(turn)).entries

    @model_validator(mode="after")
    def _check(self) -> "Scenario":
        unknown = set(self.change.remove) - {one.id for one in self.constraints}
        unknown |= set(self.change.cancel) - {one.label for one in self.activities}
        if unknown:
            raise ValueError(f"change: unknown names {', '.join(sorted(unknown))}")
        for turn in (1, 2):
            problems = _problems(self.problem(turn), {self.companion, self.user})
            if problems:
                raise ValueError(f"turn {turn}: {'; '.join(problems)}")
        first = self.shipped_plan(1)
        violations = [(1, one) for one in check_plan(self.problem(1), first)]
        violations += [(2, one) for one in check_plan(self.problem(2), self.shipped_plan(2), first)]
        if violations:
            lines = (f"turn {turn}: {one.kind} of {', '.join(one.labels)}" for turn, one in violations)
            raise ValueError(f"plan: {'; '.join(lines)}")
        return self


def level_of(num_constraints: int) -> str:
    """The level of a number of constraints in the first turn."""
    return next(level for level, numbers in LEVELS.items() if num_constraints in numbers)


def read_scenarios(language: str = "en", folder: Path = _FOLDER) -> list[Scenario]:
    """Read the scenarios of a language; file by file, in the order of the files.

    Args:
        language: of the scenarios.
        folder: with a folder per language.

    Raises:
        H2HTalkError: an entry violates the schema, or a shipped plan violates a constraint; each line names file and
            entry.

    """
    files = sorted((folder / language).glob("*.yaml"))
    return [scenario for file in files for scenario in read_entries(file, _parse)]


def _parse(entry: Mapping[str, Any]) -> Scenario:
    """Fill in what the sources leave out: activities without `who` are of both people."""
    people = [entry["companion"], entry["user"]]

    def with_people(activities: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [{"who": people, **one} for one in activities]

    change = dict(entry["change"])
    change["activities"] = with_people(change.get("activities", ()))
    return Scenario.model_validate({**entry, "activities": with_people(entry["activities"]), "change": change})


def _problems(problem: Problem, people: set[str]) -> list[str]:
    """What is wrong in a problem: names, labels, places and times that do not exist."""
    labels = [one.label for one in problem.activities]
    problems = [f"{label!r} occurs twice" for label in set(labels) if labels.count(label) > 1]
    outsiders = [one for one in problem.activities if set(one.who) - people]
    problems += [f"{one.label!r}: {', '.join(one.who)} are not the two people" for one in outsiders]
    places = {one.place for one in problem.activities}
    places |= {getattr(one.rule, "place", None) for one in problem.constraints}
    for constraint in problem.constraints:
        rule = constraint.rule
        concerned = concerned_labels(problem, rule)
        problems += [f"{rule.kind}: no activity {label!r}" for label in concerned if label not in labels]
        if not concerned:
            problems.append(f"{rule.kind}: is about no activity")
        if unknown := set(getattr(rule, "who", ())) - people:
            problems.append(f"{rule.kind}: {', '.join(sorted(unknown))} is not one of the two people")
        problems += [f"travel: no place {place!r}" for place in getattr(rule, "between", ()) if place not in places]
        try:
            _read_times(problem, rule)
        except ValueError as error:
            problems.append(f"{rule.kind}: {error}")
    if problem.now and not 0 < problem.now_minute < problem.days * DAY:
        problems.append(f"now: {problem.now!r} is not within the days")
    return problems


def _read_times(problem: Problem, rule: Rule) -> None:
    for name in ("when", "open", "dry", "free", "days"):
        value = getattr(rule, name, None)
        if isinstance(value, str):
            problem.calendar.spans(value)
    for name in ("by", "at"):
        if hasattr(rule, name):
            problem.calendar.minute(getattr(rule, name))
    if rule.kind == "budget":
        for prices in rule.prices.values():
            for price in prices:
                if price.when:
                    problem.calendar.spans(price.when)
