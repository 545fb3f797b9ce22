"""CompanionPlanning: plans of several days, checked by program, and what a replan changes without need.

An answer is read by :func:`h2htalk_datasets.planning.parse_plan` and checked by
:func:`h2htalk_datasets.planning.check_plan`. In the second turn the model sees its own first plan. If nothing of that
could be read, it sees the valid plan that the set ships instead, which the result counts.
"""

__all__ = ["LEVEL_LABELS", "MEASURES", "PROBE", "Measure", "heard_plan", "measure_planning", "measure_plans"]

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from h2htalk_datasets.planning.checker import (
    BASE_RULES,
    Violation,
    changed_labels,
    check_plan,
    past_entries,
    unnecessary_changes,
)
from h2htalk_datasets.planning.checker import satisfied as satisfied_constraints
from h2htalk_datasets.planning.constraints import KINDS
from h2htalk_datasets.planning.parse import ParsedPlan, parse_plan
from h2htalk_datasets.planning.problem import Plan, Problem, concerned_labels
from h2htalk_datasets.planning.rows import problem_of
from h2htalk_datasets.planning.scenario import LEVELS
from h2htalk_datasets.tasks import PLANNING
from h2htalk_metric.probes.figures import figure
from h2htalk_metric.probes.results import check_probe_run
from h2htalk_metric.runs.run import Run

PROBE = PLANNING

Record = Mapping[str, Any]
"""A record of the probe set."""

LEVEL_LABELS = {"all": "all"} | {
    level: f"{level} ({numbers.start} to {numbers.stop - 1})" for level, numbers in LEVELS.items()
}
"""Levels of difficulty with their numbers of constraints."""


@dataclass(frozen=True)
class CheckedAnswer:
    """One answer and what the checker says about it.

    Attributes:
        record: of the probe set.
        problem: what the plan is checked against.
        parsed: what was read.
        earlier: in the second turn the plan that the model was shown.
        violations: of the plan, repeated activities included.

    """

    record: Record
    problem: Problem
    parsed: ParsedPlan
    earlier: Plan | None = None
    violations: Sequence[Violation] = field(default_factory=list)


def _constraints_share(answer: CheckedAnswer) -> float:
    return _share([*satisfied_constraints(answer.problem, answer.parsed.entries, answer.earlier).values()])


def _planned_share(answer: CheckedAnswer) -> float:
    past = past_entries(answer.problem, answer.earlier)
    return _share([label in answer.parsed.entries for label in answer.problem.by_label if label not in past])


def _share(values: Sequence[bool]) -> float:
    """The share of true values; NaN if there is none, for instance if all activities have happened."""
    return sum(values) / len(values) if values else np.nan


def _unnecessary(answer: CheckedAnswer) -> float:
    """Number of changes without need; NaN in the first turn and for an answer without a plan."""
    if answer.earlier is None or not answer.parsed.parsed:
        return np.nan
    return len(unnecessary_changes(answer.problem, answer.parsed.entries, answer.earlier))


def _moved_share(answer: CheckedAnswer) -> float:
    """Of the entries that could have stayed, the share that was moved; NaN if there is none."""
    if answer.earlier is None or not answer.parsed.parsed:
        return np.nan
    problem, plan = answer.problem, answer.parsed.entries
    past, changed = past_entries(problem, answer.earlier), changed_labels(problem, plan, answer.earlier)
    stayed = [one for one in plan if one in answer.earlier and one not in past and one not in changed]
    moved = len(unnecessary_changes(problem, plan, answer.earlier))
    return moved / (moved + len(stayed)) if moved or stayed else np.nan


class Measure(NamedTuple):
    """A number per answer.

    Attributes:
        label: for people.
        of: from a checked answer to the number; NaN if it has none.
        rate: whether it is a share, 0..1.

    """

    label: str
    of: Callable[[CheckedAnswer], float]
    rate: bool = True


MEASURES: dict[str, Measure] = {
    "parsed": Measure("plan read", lambda answer: float(answer.parsed.parsed)),
    "valid": Measure("valid plan", lambda answer: float(not answer.violations)),
    "constraints": Measure("constraints satisfied", _constraints_share),
    "planned": Measure("activities planned", _planned_share),
    "unnecessary": Measure("unnecessary changes", _unnecessary, rate=False),
    "moved": Measure("moved without need", _moved_share),
}
"""Measures in the order of the table; the last two exist in the second turn only."""


def heard_plan(record: Record, answer: str) -> str:
    """What the model sees as its first plan: its answer, or the shipped plan if nothing of the answer could be read."""
    return answer if parse_plan(answer, problem_of(record)).parsed else record["reference"]


def measure_planning(run: Run | str | Path) -> dict[str, Any]:
    """Measure a run over CompanionPlanning.

    Args:
        run: a complete run, a roll-out with :func:`heard_plan`.

    Returns:
        Content of ``probes/planning.json``. `figures`: per turn (``1``, ``2``; ``both`` has the scenarios of which both
        plans are valid), level (see :data:`LEVEL_LABELS`) and measure n, value, low, high and detectable, clustered by
        scenario. `kinds`: likewise per kind of violation the share of the activities (for the rules of every plan) or
        of the constraints of this kind that are violated. `shown`: how many second turns began with the model's own
        plan and with the shipped one. Also n, empty, cut, unknown and unreadable lines, and the signature.

    Raises:
        H2HTalkError: the run is incomplete, or it is of another set.

    """
    run = Run.of(run)
    check_probe_run(run, PROBE)
    return {
        "probe": PROBE,
        "model": run.manifest["model"]["name"],
        "empty": sum(not line["prediction"].strip() for line in run.predictions),
        "cut": sum(line["finish_reason"] == "length" for line in run.predictions),
        **measure_plans(run.records, [line["prediction"] for line in run.predictions]),
        "signature": {"probe": run.manifest["dataset"]["fingerprint"][:12]},
    }


def measure_plans(records: Sequence[Record], predictions: Sequence[str]) -> dict[str, Any]:
    """The part of :func:`measure_planning` that depends on the answers only.

    Args:
        records: of the probe set, both turns of each scenario; the history of a second turn has the plan that the
            model saw.
        predictions: an answer per record.

    """
    answers = _checked_answers(records, predictions)
    turns = {str(turn): [one for one in answers if one.record["turn"] == turn] for turn in (1, 2)}
    return {
        "n": len(answers),
        "scenarios": len(turns["1"]),
        "unknown": sum(len(one.parsed.unknown) for one in answers),
        "unreadable": sum(len(one.parsed.unreadable) for one in answers),
        "shown": {
            "own": sum(one.parsed.parsed for one in turns["1"]),
            "shipped": sum(not one.parsed.parsed for one in turns["1"]),
        },
        "figures": {turn: _by_level(of_turn, _figures) for turn, of_turn in turns.items()} | {"both": _both(turns)},
        "kinds": {turn: _by_level(of_turn, _kinds) for turn, of_turn in turns.items()},
    }


def _checked_answers(records: Sequence[Record], predictions: Sequence[str]) -> list[CheckedAnswer]:
    """Each answer with its violations; a second turn is checked against the plan that the model saw."""
    first_problems = {record["scenario"]: problem_of(record) for record in records if record["turn"] == 1}
    answers = []
    for record, prediction in zip(records, predictions, strict=True):
        problem, earlier = problem_of(record), None
        if record["turn"] == 2:
            earlier = parse_plan(record["history"][1]["content"], first_problems[record["scenario"]]).entries
        parsed = parse_plan(prediction, problem)
        violations = [*check_plan(problem, parsed.entries, earlier)]
        violations += [Violation("repetition", (label,)) for label in parsed.repeated]
        answers.append(CheckedAnswer(record, problem, parsed, earlier, violations))
    return answers


def _by_level(
    answers: Sequence[CheckedAnswer], measure: Callable[[Sequence[CheckedAnswer]], dict[str, Any]]
) -> dict[str, Any]:
    groups = {level: [one for one in answers if level in ("all", one.record["level"])] for level in LEVEL_LABELS}
    return {level: measure(of_level) for level, of_level in groups.items() if of_level}


def _figures(answers: Sequence[CheckedAnswer]) -> dict[str, Any]:
    scenarios = [one.record["scenario"] for one in answers]
    figures = {
        name: figure(
            [measure.of(one) for one in answers],
            scenarios,
            rate=measure.rate,
            bounds=None if measure.rate else (0, np.inf),
        )
        for name, measure in MEASURES.items()
    }
    return {name: one for name, one in figures.items() if one}


def _both(turns: Mapping[str, Sequence[CheckedAnswer]]) -> dict[str, Any]:
    """Scenarios of which both plans are valid."""
    replans = {one.record["scenario"]: one for one in turns["2"]}

    def share(answers: Sequence[CheckedAnswer]) -> dict[str, Any]:
        scenarios = [one.record["scenario"] for one in answers]
        values = [float(not one.violations and not replans[one.record["scenario"]].violations) for one in answers]
        return {"valid": figure(values, scenarios, rate=True)}

    return _by_level(turns["1"], share)


def _kinds(answers: Sequence[CheckedAnswer]) -> dict[str, Any]:
    """Share of violations by kind; an activity that is not planned violates nothing but its omission."""
    items: dict[str, list[tuple[float, str]]] = {kind: [] for kind in (*BASE_RULES, *KINDS)}
    for answer in answers:
        scenario, planned = answer.record["scenario"], answer.parsed.entries
        violating = {(one.kind, label) for one in answer.violations for label in one.labels}
        past = past_entries(answer.problem, answer.earlier)
        for rule in BASE_RULES:
            if rule != "past" or answer.earlier is not None:
                labels = [one for one in answer.problem.by_label if one not in past] if rule == "omission" else planned
                items[rule] += [(float((rule, label) in violating), scenario) for label in labels]
        violated = {one.constraint for one in answer.violations}
        for number, constraint in enumerate(answer.problem.constraints):
            labels = [one for one in concerned_labels(answer.problem, constraint.rule) if one not in past]
            if any(label in planned for label in labels):
                items[constraint.rule.kind].append((float(number in violated), scenario))
    return {
        kind: figure([value for value, _ in pairs], [scenario for _, scenario in pairs], rate=True)
        for kind, pairs in items.items()
        if pairs
    }
