"""CompanionPlanning as dataset rows, one per turn of a scenario, and back to the problem that a row poses."""

__all__ = ["planning_features", "planning_rows", "problem_of"]

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from h2htalk_datasets.corpus.sources import load_people
from h2htalk_datasets.planning.problem import Activity, Problem, plan_text
from h2htalk_datasets.planning.scenario import Scenario, level_of
from h2htalk_datasets.prompts import render_probe
from h2htalk_datasets.tasks import PLANNING

if TYPE_CHECKING:
    from datasets import Features


def planning_rows(scenarios: Iterable[Scenario], language: str = "en") -> list[dict[str, Any]]:
    """Two rows per scenario: the first plan, and the replan after the change."""
    return [_row(scenario, turn, language) for scenario in scenarios for turn in (1, 2)]


def planning_features() -> "Features":
    """The columns as ``datasets.Features``; `rule` is JSON, since each kind of constraint has its own fields."""
    from datasets import Features, List, Value

    text: Any = Value("string")
    small = Value("int8")
    turns = List({"role": text, "content": text})
    columns: dict[str, Any] = dict.fromkeys(("id", "probe", "scenario"), text) | {"turn": small, "difficulty": small}
    columns |= dict.fromkeys(("level", "relationship", "companion", "user", "persona", "language", "start"), text)
    columns |= {"days": small, "now": text}
    columns |= {"activities": List({"label": text, "minutes": Value("int16"), "who": List(text), "place": text})}
    columns |= {"constraints": List({"kind": text, "say": text, "rule": text})}
    return Features(columns | {"history": turns, "reference": text, "messages": turns})


def problem_of(row: Mapping[str, Any]) -> Problem:
    """The problem that answers to a row are checked against."""
    return Problem.model_validate(
        {
            **{key: row[key] for key in ("start", "days", "now", "activities")},
            "constraints": [{"say": one["say"], "rule": json.loads(one["rule"])} for one in row["constraints"]],
        }
    )


def _row(scenario: Scenario, turn: int, language: str) -> dict[str, Any]:
    problem = scenario.problem(turn)
    history = [{"role": "user", "content": _first_message(scenario)}]
    if turn == 2:
        history.append({"role": "companion", "content": _shipped_text(scenario, 1)})
        history.append({"role": "user", "content": _second_message(scenario)})
    row = {
        "id": f"{language}-planning-{scenario.slug}-{turn}",
        "probe": PLANNING,
        "scenario": scenario.slug,
        "turn": turn,
        "difficulty": len(scenario.constraints),
        "level": level_of(len(scenario.constraints)),
        "relationship": scenario.relationship,
        "companion": scenario.companion,
        "user": scenario.user,
        "persona": load_people(scenario.relationship, language)[0].profile.strip(),
        "language": language,
        "start": scenario.start.isoformat(),
        "days": scenario.days,
        "now": problem.now,
        "activities": [one.model_dump() | {"who": list(one.who)} for one in problem.activities],
        "constraints": [
            {"kind": one.rule.kind, "say": one.say, "rule": one.rule.model_dump_json(exclude_none=True)}
            for one in problem.constraints
        ],
        "history": history,
        "reference": _shipped_text(scenario, turn),
    }
    return row | {"messages": render_probe(row)}


def _shipped_text(scenario: Scenario, turn: int) -> str:
    return plan_text(scenario.problem(turn), scenario.shipped_plan(turn))


def _first_message(scenario: Scenario) -> str:
    days = ", ".join(scenario.problem(1).calendar.dates())
    return "\n".join(
        [
            " ".join(scenario.opening.split()),
            f"\nThe days: {days}.",
            "\nWhat has to go in (label: how long, who, where):",
            *_activity_lines(scenario, scenario.activities),
            "\nWhat we have to go by:",
            *(f"- {one.say}" for one in scenario.constraints),
        ]
    )


def _second_message(scenario: Scenario) -> str:
    change = scenario.change
    blocks = {
        "No longer true:": [f"- {one.say}" for one in scenario.constraints if one.id in change.remove],
        "New:": [f"- {one.say}" for one in change.add],
        "Not needed any more:": [f"- {label}" for label in change.cancel],
        "Also has to go in:": _activity_lines(scenario, change.activities),
    }
    lines = [" ".join(change.say.split()), f"\nIt is {change.now} now."]
    for heading, block in blocks.items():
        lines += [f"\n{heading}", *block] if block else []
    return "\n".join(lines)


def _activity_lines(scenario: Scenario, activities: Iterable[Activity]) -> list[str]:
    """The activities as the user says them: the companion is "you", the user "me"."""
    names = {scenario.companion: "you", scenario.user: "me"}
    lines = []
    for one in activities:
        people = " and ".join(word for name, word in names.items() if name in one.who)
        place = f", {one.place}" if one.place else ""
        lines.append(f"- {one.label}: {one.minutes} minutes, {people}{place}")
    return lines
