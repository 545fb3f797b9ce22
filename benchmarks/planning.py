"""How hard is CompanionPlanning? Planners without a language model over all scenarios.

- shipped: the valid plans of the set;
- greedy: activities in the order of the prompt, each in the earliest slot of 15 minutes that still fits; in the second
  turn it keeps what still fits;
- empty: no plan.

It also samples valid first plans with CP-SAT, to see how often a valid plan leaves a replan without a solution.

    python benchmarks/planning.py    # the tables, to RESULTS.md; needs the test extra
"""

import random
import sys
from pathlib import Path

from results import write

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from helpers.greedy_planner import greedy_plan
from helpers.planning_solver import Solver

from h2htalk_datasets.generation.requests import chosen_probes
from h2htalk_datasets.planning import check_plan, parse_plan, problem_of, read_scenarios
from h2htalk_datasets.planning.problem import plan_text
from h2htalk_metric.probes.figures import figure
from h2htalk_metric.probes.planning import LEVEL_LABELS, MEASURES, heard_plan, measure_plans
from h2htalk_metric.probes.rollout import with_answers

SAMPLES = 20


def greedy(row, earlier):
    problem = problem_of(row)
    return plan_text(problem, greedy_plan(problem, earlier))


PLANNERS = {
    "shipped": lambda row, earlier: row["reference"],
    "greedy": greedy,
    "empty": lambda row, earlier: "",
}


def measure(planner):
    """Let a planner answer both turns of every scenario; in the second it has its own first plan."""
    rows = chosen_probes("CompanionPlanning")
    first = [row for row in rows if row["turn"] == 1]
    answers = {row["id"]: {"prediction": planner(row, None)} for row in first}
    records = [with_answers(row, rows, answers, heard_plan) for row in rows]
    problems = {row["scenario"]: problem_of(row) for row in first}
    for record in records:
        if record["turn"] == 2:
            earlier = parse_plan(record["history"][1]["content"], problems[record["scenario"]]).entries
            answers[record["id"]] = {"prediction": planner(record, earlier)}
    return measure_plans(records, [answers[record["id"]]["prediction"] for record in records])


def cell(one, name):
    if one is None:
        return "-"
    factor, form = (100, ".1f") if MEASURES[name].rate else (1, ".2f")
    return f"{factor * one['value']:{form}} ({factor * one['low']:{form}} to {factor * one['high']:{form}})"


def planners_table():
    lines = ["| planner | turn | difficulty | n | " + " | ".join(m.label for m in MEASURES.values()) + " |"]
    lines.append("|---|---|---|" + "---:|" * (1 + len(MEASURES)))
    for name, planner in PLANNERS.items():
        result = measure(planner)
        for turn in ("1", "2"):
            for level, figures in result["figures"][turn].items():
                cells = [cell(figures.get(key), key) for key in MEASURES]
                n = next(iter(figures.values()))["n"]
                lines.append(f"| {name} | {turn} | {LEVEL_LABELS[level]} | {n} | {' | '.join(cells)} |")
    return "\n".join(lines)


def random_first_plan(problem, seed):
    """A valid plan that prefers early or late starts by random weights."""
    generator = random.Random(seed)
    solver = Solver(problem, seed=seed + 1)
    solver.random_weights({label: generator.choice([-1, 1]) * generator.randint(1, 9) for label in problem.by_label})
    return solver.solve()


def solvable_replans():
    """Of random valid first plans, the share that leave a valid replan."""
    values, labels = [], []
    for scenario in read_scenarios():
        first, second = scenario.problem(1), scenario.problem(2)
        for seed in range(SAMPLES):
            plan = random_first_plan(first, seed)
            assert not check_plan(first, plan)
            values.append(float(Solver(second, earlier=plan).solve() is not None))
            labels.append(scenario.slug)
    one = figure(values, labels, rate=True)
    return (
        f"Of {one['n']:,} random valid first plans ({SAMPLES} per scenario) "
        f"{100 * one['value']:.1f}% ({100 * one['low']:.1f} to {100 * one['high']:.1f}) leave a valid replan."
    )


if __name__ == "__main__":
    text = f"{planners_table()}\n\n{solvable_replans()}"
    write("CompanionPlanning without a model (`planning.py`)", text, ["h2htalk", "ortools"])
