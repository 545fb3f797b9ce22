"""OR-tools against the scenarios: solvable, every constraint matters, no replan changes less than the shipped one."""

import pytest
from helpers.greedy_planner import greedy_plan
from helpers.planning_scenarios import scenarios
from helpers.planning_solver import Solver

from h2htalk_datasets.planning import check_plan
from h2htalk_datasets.planning.checker import changed_labels

SLUGS = [*scenarios()]


@pytest.mark.parametrize("slug", SLUGS)
def test_each_constraint_can_be_violated_alone_and_the_checker_names_it(slug):
    """So no constraint is redundant, and solver and checker mean the same by each of them."""
    problem = scenarios()[slug].problem(1)
    assert check_plan(problem, Solver(problem).solve()) == []
    for number in range(len(problem.constraints)):
        plan = Solver(problem, violated=number).solve()
        assert plan is not None, problem.constraints[number].say
        assert {one.constraint for one in check_plan(problem, plan)} == {number}


@pytest.mark.parametrize("slug", SLUGS)
def test_no_valid_replan_changes_fewer_activities_than_the_shipped_one(slug):
    scenario = scenarios()[slug]
    problem, earlier = scenario.problem(2), scenario.shipped_plan(1)
    solver = Solver(problem, earlier=earlier)
    plan = solver.solve(fewest_changes=True)
    assert check_plan(problem, plan, earlier) == []
    shipped = changed_labels(problem, scenario.shipped_plan(2), earlier)
    assert len(changed_labels(problem, plan, earlier)) == len(shipped) > 0


def test_a_planner_without_look_ahead_fails_many_hard_scenarios():
    hard = [scenario for scenario in scenarios().values() if scenario.level == "hard"]
    failed = [one.slug for one in hard if len(greedy_plan(one.problem(1))) < len(one.activities)]
    assert len(failed) >= 0.4 * len(hard)


def test_what_the_greedy_planner_places_is_valid():
    for slug in SLUGS[::8]:
        problem = scenarios()[slug].problem(1)
        assert {one.kind for one in check_plan(problem, greedy_plan(problem))} <= {"omission"}
