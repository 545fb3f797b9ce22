"""audit.csv of CompanionMemory and of CompanionPlanning: what second readers found, and how it was fixed."""

import csv

from h2htalk_datasets import memory, planning
from h2htalk_datasets.memory.schema import read_arcs
from h2htalk_datasets.planning import read_scenarios


def findings(package):
    folder = package.__path__[0]
    with open(f"{folder}/audit.csv", encoding="utf-8", newline="") as file:  # noqa: PTH123
        return list(csv.DictReader(file))


def test_every_finding_about_memory_names_an_arc_a_place_and_a_fix():
    arcs = {arc.relationship[:2]: arc for arc in read_arcs()}
    for row in findings(memory):
        assert row["arc"] in arcs and row["place"] and row["kind"] and row["fix"], row
    assert {row["arc"] for row in findings(memory)} == set(arcs)  # every arc had a second reader


def test_every_finding_about_plans_names_a_scenario_and_a_fix():
    names = {scenario.slug for scenario in read_scenarios()}
    for row in findings(planning):
        assert row["scenario"] in names and row["kind"] and row["fix"], row
