"""The scenarios of CompanionPlanning: counts, prompts, rows, and sources that are refused."""

from collections import Counter

import pytest
import yaml
from helpers.planning_scenarios import scenarios

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.generation.requests import chosen_probes
from h2htalk_datasets.loading import load_probe, manifest
from h2htalk_datasets.planning import parse_plan, problem_of, read_scenarios
from h2htalk_datasets.planning.checks import check_scenarios
from h2htalk_datasets.planning.constraints import KINDS
from h2htalk_datasets.planning.rows import planning_rows


@pytest.fixture(scope="module")
def rows():
    return load_probe("CompanionPlanning").to_list()


def test_eighty_scenarios_over_all_levels_relationships_and_kinds():
    shipped = [*scenarios().values()]
    levels = Counter(scenario.level for scenario in shipped)
    assert len(shipped) >= 80 and min(levels["easy"], levels["middle"] - 5, levels["hard"] - 5) >= 20
    assert len({scenario.relationship for scenario in shipped}) >= 40
    assert {constraint.rule.kind for scenario in shipped for constraint in scenario.constraints} == set(KINDS)


def test_the_shipped_parquet_is_its_yaml(rows):
    assert rows == planning_rows(scenarios().values())
    assert fingerprint(rows) == manifest()["probes"]["fingerprints"]["CompanionPlanning"]
    assert len(rows) == manifest()["probes"]["counts"]["CompanionPlanning"] == 2 * len(scenarios())


def test_a_row_is_enough_to_check_an_answer(rows):
    for row in rows:
        scenario = scenarios()[row["scenario"]]
        assert problem_of(row) == scenario.problem(row["turn"])
        assert parse_plan(row["reference"], problem_of(row)).entries == scenario.shipped_plan(row["turn"])


def test_the_prompt_says_every_constraint_and_label_and_not_the_answer(rows):
    for row in rows:
        prompt = row["messages"][1]["content"]
        assert all(constraint["say"] in prompt for constraint in row["constraints"])
        assert all(f"- {activity['label']}: " in prompt for activity in row["activities"])
        assert row["reference"] not in prompt
        assert row["persona"].split("\n")[0] in row["messages"][0]["content"]


def test_people_and_personas_are_those_of_the_corpus(rows):
    from h2htalk_datasets import load

    people = {row["relationship"]: row for row in load("ItineraryBasic")}
    for row in rows:
        own = people[row["relationship"]]
        assert (row["companion"], row["user"]) == (own["companion"], own["user"])
        assert " ".join(row["persona"].split()) == " ".join(own["persona"].split())


def test_a_limit_counts_scenarios_with_both_turns():
    chosen = chosen_probes("CompanionPlanning", 5)
    assert Counter(row["scenario"] for row in chosen) == dict.fromkeys((row["scenario"] for row in chosen), 2)
    assert len(chosen) == 10


def test_the_checks_pass_and_name_what_is_wrong():
    shipped = [*scenarios().values()]
    assert all(check.passed for check in check_scenarios(shipped))
    other = shipped[0].model_copy(update={"companion": "Txomin"})
    easy = [one for one in shipped if one.level != "easy"]
    failed = {check.rule: check.offenders for check in check_scenarios([*easy, other, other]) if not check.passed}
    assert [*failed.values()] == [["easy: 2, expected 20"], [other.slug], [other.slug, other.slug]]


SOURCE = """
slug: x
relationship: 01-brakewoman
companion: Maialen
user: Graciela
start: 2026-10-12
days: 4
opening: Plan with me.
activities:
  - {label: cards, minutes: 60}
  - {label: swim, minutes: 30, who: Maialen}
constraints:
  - {say: a, rule: {kind: promise_time, activities: [cards], when: Thu 19:00-22:00}}
  - {id: b, say: b, rule: {kind: opening, activities: [swim], open: daily 08:00-10:00}}
  - {say: c, rule: {kind: deadline, activity: swim, by: Wed 12:00}}
  - {say: d, rule: {kind: appointment, who: [Maialen, Graciela], when: Tue}}
plan: |
  Mon 08:00-08:30 swim
  Thu 19:00-20:00 cards
change:
  now: Tue 12:00
  say: It rains.
  add:
    - {say: e, rule: {kind: earliest, activity: cards, at: "Thu 20:00"}}
  plan: |
    Mon 08:00-08:30 swim
    Thu 20:00-21:00 cards
"""


def read_changed(tmp_path, old="", new=""):
    (tmp_path / "en").mkdir()
    source = yaml.safe_load(SOURCE.replace(old, new) if old else SOURCE)
    (tmp_path / "en" / "own.yaml").write_text(yaml.safe_dump([source], allow_unicode=True), "utf-8")
    return read_scenarios(folder=tmp_path)


def test_a_source_is_read(tmp_path):
    (scenario,) = read_changed(tmp_path)
    assert scenario.level == "easy"
    assert [one.who for one in scenario.activities] == [("Maialen", "Graciela"), ("Maialen",)]


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("Mon 08:00-08:30 swim\n  Thu", "Mon 07:00-07:30 swim\n  Thu", "turn 1: opening of swim"),
        ("    Thu 20:00-21:00 cards", "    Thu 19:00-20:00 cards", "turn 2: earliest of cards"),
        ("  Thu 19:00-20:00 cards", "  Thu 19:00-20:00 dice", "turn 1: omission of cards"),
        ("activity: swim, by", "activity: swimming, by", "deadline: no activity 'swimming'"),
        ("Wed 12:00", "Sun 12:00", "deadline: 'Sun' is not a day of this plan; the days are: Mon, Tue, Wed, Thu"),
        ("daily 08:00-10:00", "daily 8-10", "opening: '8' is not a time such as 09:30"),
        ("who: [Maialen, Graciela]", "who: Martín", "appointment: Martín is not one of the two people"),
        ("kind: deadline", "kind: dead line", "Input tag 'dead line'"),
        ("  say: It rains.", "  say: It rains.\n  remove: [z]", "change: unknown names z"),
        ("now: Tue 12:00", "now: noon", "'noon' is not a day of this plan"),
        ("minutes: 60", "minutes: 0", "activities.0.minutes"),
        ("label: swim", "label: cards", "'cards' occurs twice"),
        ("  - {say: c, rule: {kind: deadline, activity: swim, by: Wed 12:00}}\n", "", "at least 4 items"),
    ],
)
def test_a_wrong_source_is_named(tmp_path, old, new, named):
    with pytest.raises(H2HTalkError) as error:
        read_changed(tmp_path, old, new)
    assert named in str(error.value)
    assert str(error.value).startswith("own.yaml, entry 1: ")
