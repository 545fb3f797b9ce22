"""The checker against plans that were broken by hand: each violation is found, and none is invented."""

import pytest
from helpers.planning_scenarios import changed_plan, scenarios

from h2htalk_datasets.planning import check_plan, satisfied, unnecessary_changes
from h2htalk_datasets.planning.checker import changed_labels

MARVIN, LARISSA, PADRAIG = "marvin-before-the-half", "larissa-lemon-tree-party", "padraig-herd-test"
CONSUELO, MARCUS = "consuelo-santa-ana", "marcus-permission-to-travel"
SOLENE, BEATRIZ = "solene-third-attempt", "beatriz-avo-arrives"

EASY, SHARP, TAPE = "easy five kilometres", "sharpener run", "knee tape lesson"
LETTERS, NUMBER, SWIM, PASTA = (
    "opening the tax letters",
    "collecting the race number",
    "swimming with Boaz",
    "pasta and early night",
)
CHAIR, PAINT, TOOTH, NAILS = "buying a chair", "painting the kitchen", "Mateus's tooth", "nails for the bride"
CAKE, NEIDE = "cornmeal cake at Zuza's", "Neide in the yard"
GATE, INJECT, READ, HIP = "mending the crush gate", "injecting the herd", "reading the test", "hip appointment"
PHOTOS, FIGURES = "photographs with Malachy", "shop cake and the figures"
DRESS, SPEECH, CHOIR = "dress fitting", "speech with Pilar", "choir rehearsal"
CHAIRS, LANDING = "carrying the chairs", "singing on the landing"
SUPPLIES, FLOWERS, FISH = "school supplies", "flowers for Miss Odessa", "fish fry"
SCAN, BLOOD, CALL, LINOCUT = "scan", "blood test", "long phone call", "linocut for Annick"
BANK, RAYS, CANARIES, AIRPORT = "day on the bank", "measuring the rays", "moving the canaries", "airport"

BROKEN = [
    (MARVIN, 1, {EASY: "Mon 16:30-17:15"}, [("appointment", EASY)]),
    (MARVIN, 1, {EASY: "Tue 19:30-20:15"}, [("appointment", EASY)]),
    (MARVIN, 1, {EASY: "Sat 15:00-15:45"}, [("promise_free", EASY)]),
    (MARVIN, 1, {LETTERS: "Mon 21:00-22:00"}, [("opening", LETTERS)]),
    (MARVIN, 1, {PASTA: "Sat 21:30-23:00"}, [("promise_time", PASTA), ("sleep", PASTA)]),
    (MARVIN, 1, {SHARP: "Tue 17:00-17:45"}, [("rest", EASY, SHARP)]),
    (MARVIN, 1, {SHARP: "Mon 17:45-18:30"}, [("rest", EASY, SHARP), ("order", TAPE, SHARP)]),
    (MARVIN, 1, {SHARP: "Thu 19:30-20:00"}, [("duration", SHARP)]),
    (MARVIN, 1, {SHARP: "Thu 20:30-21:15"}, [("deadline", SHARP)]),
    (MARVIN, 1, {SWIM: "Fri 17:30-18:30"}, [("deadline", SWIM)]),
    (MARVIN, 1, {SWIM: "Wed 17:00-18:00"}, [("opening", SWIM)]),
    (MARVIN, 1, {NUMBER: "Thu 19:00-19:30"}, [("opening", NUMBER)]),
    (MARVIN, 1, {NUMBER: None}, [("omission", NUMBER)]),
    (MARVIN, 1, {TAPE: "Wed 19:00-19:30"}, [("travel", SWIM, TAPE)]),
    (MARVIN, 1, {TAPE: "Wed 18:30-19:00"}, [("clash", SWIM, TAPE)]),
    (LARISSA, 1, {PAINT: "Thu 19:00-22:00"}, [("clash", PAINT, CHAIR), ("rest", TOOTH, PAINT)]),
    (LARISSA, 1, {PAINT: "Wed 19:00-22:00"}, [("appointment", PAINT)]),
    (LARISSA, 1, {PAINT: "Sat 19:00-22:00"}, [("order", PAINT, NEIDE)]),
    (LARISSA, 1, {TOOTH: "Tue 12:00-13:00"}, [("rest", TOOTH, PAINT), ("budget", CHAIR, CAKE, TOOTH)]),
    (LARISSA, 1, {TOOTH: "Fri 12:00-13:00"}, [("opening", TOOTH), ("budget", CHAIR, CAKE, TOOTH)]),
    (LARISSA, 1, {CHAIR: "Wed 18:00-19:00"}, [("appointment", CHAIR), ("budget", CHAIR, CAKE, TOOTH)]),
    (LARISSA, 1, {CHAIR: "Sun 12:00-13:00"}, [("opening", CHAIR)]),
    (LARISSA, 1, {NEIDE: "Sun 12:00-14:00"}, [("promise_time", NEIDE)]),
    (LARISSA, 1, {NEIDE: "Sun 10:00-12:00"}, [("promise_time", NEIDE), ("appointment", NEIDE)]),
    (LARISSA, 1, {CAKE: "Fri 19:00-20:30"}, [("promise_time", CAKE)]),
    (LARISSA, 1, {NAILS: "Sat 13:00-15:00"}, [("promise_time", NAILS)]),
    (PADRAIG, 1, {HIP: "Tue 10:00-11:00"}, [("travel", HIP, INJECT)]),
    (PADRAIG, 1, {HIP: "Wed 09:00-10:00"}, [("opening", HIP)]),
    (PADRAIG, 1, {READ: "Fri 11:00-13:00"}, [("order", INJECT, READ)]),
    (PADRAIG, 1, {READ: "Sat 11:30-13:30"}, [("deadline", READ)]),
    (PADRAIG, 1, {GATE: "Tue 14:00-15:30"}, [("order", GATE, INJECT), ("energy", GATE, INJECT)]),
    (PADRAIG, 1, {INJECT: "Wed 08:00-11:00"}, [("appointment", INJECT), ("order", INJECT, READ)]),
    (PADRAIG, 1, {PHOTOS: "Wed 08:00-09:00"}, [("weather", PHOTOS)]),
    (PADRAIG, 1, {PHOTOS: "Tue 20:00-21:00"}, [("weather", PHOTOS), ("promise_free", PHOTOS)]),
    (PADRAIG, 1, {FIGURES: "Sat 21:30-22:30"}, [("sleep", FIGURES)]),
    (PADRAIG, 1, {FIGURES: "Sat 17:30-18:30"}, [("appointment", FIGURES)]),
    (CONSUELO, 1, {DRESS: "Thu 15:00-15:45"}, [("energy", DRESS, SPEECH)]),
    (CONSUELO, 1, {LANDING: "Fri 20:00-20:30"}, [("promise_time", LANDING)]),
    (CONSUELO, 1, {LANDING: "Tue 18:00-18:30"}, [("energy", CHOIR, LANDING)]),
    (CONSUELO, 1, {CHAIRS: "Fri 19:00-20:30"}, [("deadline", CHAIRS)]),
    (CONSUELO, 1, {CHOIR: "Fri 19:00-21:00"}, [("clash", CHOIR, CHAIRS)]),
    (CONSUELO, 1, {SPEECH: "Thu 15:30-16:30"}, [("present", SPEECH)]),
    (MARCUS, 1, {SUPPLIES: "Wed 15:00-16:00"}, [("budget", SUPPLIES, FLOWERS, FISH)]),
    (MARCUS, 1, {SUPPLIES: "Fri 17:30-18:30"}, [("deadline", SUPPLIES)]),
    (MARCUS, 1, {FLOWERS: "Fri 20:00-21:00"}, [("opening", FLOWERS)]),
    (MARCUS, 1, {FISH: "Fri 19:30-21:30"}, [("clash", FLOWERS, FISH)]),
    (MARCUS, 1, {FISH: "Tue 20:30-22:30"}, [("sleep", FISH)]),
    (SOLENE, 2, {SCAN: "Sat 10:30-11:00"}, [("opening", SCAN)]),
    (SOLENE, 2, {BLOOD: "Thu 07:00-07:15"}, [("past", BLOOD)]),
    (SOLENE, 2, {CALL: "Wed 11:00-12:00"}, [("past", CALL)]),
    (SOLENE, 2, {CALL: "Fri 18:30-19:30"}, [("deadline", CALL)]),
    (BEATRIZ, 2, {BANK: "Wed 08:00-18:00"}, [("promise_time", BANK)]),
    (BEATRIZ, 2, {RAYS: "Fri 18:00-19:00"}, [("opening", RAYS)]),
    (BEATRIZ, 2, {CANARIES: "Fri 18:00-19:00"}, [("rest", BANK, CANARIES)]),
    (BEATRIZ, 2, {CANARIES: "Sat 19:30-20:30"}, [("order", CANARIES, AIRPORT)]),
]


def plans_of(slug, turn, edits):
    scenario = scenarios()[slug]
    problem = scenario.problem(turn)
    earlier = scenario.shipped_plan(1) if turn == 2 else None
    return problem, changed_plan(problem, scenario.shipped_plan(turn), edits), earlier


def test_there_are_at_least_fifty_broken_plans_over_all_kinds():
    assert len(BROKEN) >= 50
    kinds = {kind for *_, expected in BROKEN for kind, *_ in expected}
    assert len(kinds) >= 16


@pytest.mark.parametrize(("slug", "turn", "edits", "expected"), BROKEN)
def test_each_violation_is_found_and_none_is_invented(slug, turn, edits, expected):
    violations = check_plan(*plans_of(slug, turn, edits))
    assert len(violations) == len(expected)
    assert {(one.kind, frozenset(one.labels)) for one in violations} == {
        (kind, frozenset(labels)) for kind, *labels in expected
    }


@pytest.mark.parametrize("turn", [1, 2])
def test_the_shipped_plans_are_valid_and_change_nothing_without_need(turn):
    for slug in scenarios():
        problem, plan, earlier = plans_of(slug, turn, {})
        assert check_plan(problem, plan, earlier) == [], slug
        assert all(satisfied(problem, plan, earlier).values()), slug
        assert turn == 1 or unnecessary_changes(problem, plan, earlier) == [], slug


def test_what_has_happened_does_not_have_to_be_repeated():
    problem, plan, earlier = plans_of(SOLENE, 2, {BLOOD: None, LINOCUT: None})
    assert check_plan(problem, plan, earlier) == []


def test_a_violation_in_the_past_is_not_counted_again():
    """The first plan put the linocut into school hours; nobody can change that on Wednesday."""
    scenario = scenarios()[SOLENE]
    problem = scenario.problem(2)
    earlier = changed_plan(scenario.problem(1), scenario.shipped_plan(1), {LINOCUT: "Mon 10:00-12:00"})
    assert [one.kind for one in check_plan(scenario.problem(1), earlier)] == ["appointment"]
    plan = changed_plan(problem, scenario.shipped_plan(2), {LINOCUT: "Mon 10:00-12:00"})
    assert check_plan(problem, plan, earlier) == []


def test_only_changes_that_could_have_been_avoided_are_unnecessary():
    problem, plan, earlier = plans_of(CONSUELO, 2, {CHAIRS: "Fri 16:30-18:00"})
    assert changed_labels(problem, plan, earlier) == [SPEECH, CHAIRS]  # Pilar has moved, the chairs have not
    assert unnecessary_changes(problem, plan, earlier) == [CHAIRS]


def test_an_empty_plan_satisfies_nothing():
    for scenario in scenarios().values():
        for turn in (1, 2):
            problem = scenario.problem(turn)
            earlier = scenario.shipped_plan(1) if turn == 2 else None
            assert not any(satisfied(problem, {}, earlier).values())
            kinds = {one.kind for one in check_plan(problem, {}, earlier)}
            assert kinds == {"omission"}


def test_a_constraint_without_its_activities_is_not_satisfied():
    problem, plan, _ = plans_of(MARVIN, 1, {SWIM: None, SHARP: None})
    results = satisfied(problem, plan)
    kinds = {number: one.rule.kind for number, one in enumerate(problem.constraints)}
    assert {kinds[number] for number, value in results.items() if not value} == {"opening", "deadline", "rest", "order"}
