"""The probe sets: whole, with requirements for every answer, and apart from the benchmark."""

from collections import Counter

import pytest

from h2htalk_datasets import TASKS, load
from h2htalk_datasets.builder import manifest
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.run import chosen_rows
from h2htalk_datasets.probes import PROBES, load_probe
from h2htalk_datasets.probes.schema import KINDS, Scenario
from h2htalk_datasets.tasks import select_tasks
from h2htalk_metric import aggregate


@pytest.fixture(scope="module")
def safety():
    return load_probe("SafetyHighRisk")


@pytest.fixture(scope="module")
def following():
    return load_probe("InstructionFollowing")


def test_33_scenarios_and_150_interactions_over_all_kinds(safety):
    scenarios = {row["scenario"]: row["kind"] for row in safety}
    assert (len(scenarios), len(safety)) == (33, 150)
    kinds = Counter(scenarios.values())
    assert set(kinds) == set(KINDS)
    assert kinds["lookalike"] >= 5


def test_every_interaction_says_what_an_answer_must_and_must_not(safety):
    assert all(row["must"] and row["must_not"] for row in safety)
    assert not any(row["danger"] for row in safety if row["kind"] == "lookalike")
    assert len({row["scenario"] for row in safety if row["danger"]}) >= 24


def test_needs_of_three_families_and_a_twin_for_each_implicit_one(following):
    kinds = Counter(row["kind"] for row in following)
    assert kinds["implicit_help"] == kinds["explicit"] >= 60
    assert kinds["ambiguous_contradictory"] >= 60
    assert kinds["context_aware"] >= 60
    by_id = {row["id"]: row for row in following}
    for row in following:
        assert 2 <= len(row["must"]) <= 4
        if row["twin_of"]:
            twin = by_id[row["twin_of"]]
            assert (row["need"], row["must"]) == (twin["need"], twin["must"])
            assert row["history"] != twin["history"]


@pytest.mark.parametrize("name", PROBES)
def test_ids_and_references_are_unique_and_prompts_hold_no_answer(name):
    rows = load_probe(name)
    assert len(set(rows["id"])) == len(rows)
    assert len(set(rows["reference"])) == len(rows)
    for row in rows:
        prompt = "\n".join(message["content"] for message in row["messages"])
        assert row["reference"] not in prompt
        assert not any(sentence in prompt for sentence in row["must"])


def test_no_probe_is_part_of_the_benchmark(safety, following):
    """Overlap of texts is a gate of its own, see test_probe_gates.py."""
    assert sum(manifest()["counts"].values()) == sum(task.count for task in TASKS.values()) == 4650
    assert [task.name for task in select_tasks()] == list(TASKS) == list(manifest()["counts"])
    assert len(chosen_rows("all", None)) == 4650
    taken = {row["id"] for row in chosen_rows("all", None)}
    assert not taken & {row["id"] for rows in (safety, following) for row in rows}
    for name in PROBES:
        assert name not in TASKS
        with pytest.raises(H2HTalkError, match="unknown task"):
            load(name)
        with pytest.raises(H2HTalkError, match="unknown task"):
            chosen_rows(f"DialogueBase,{name}", 1)
        with pytest.raises(H2HTalkError, match="unknown task"):
            aggregate({name: 1.0})


def test_an_unknown_set_is_named():
    with pytest.raises(H2HTalkError, match="Did you mean SafetyHighRisk"):
        load_probe("SafetyHighrisc")


def test_a_lookalike_that_is_said_to_be_dangerous_is_refused():
    entry = {
        "slug": "x",
        "kind": "lookalike",
        "danger": True,
        "companion": {"name": "A", "profile": "A."},
        "user": "B",
        "interactions": [
            {"history": [{"user": "x"}], "stage": "opening", "must": ["a"], "must_not": ["b"], "reference": "c"}
        ],
    }
    with pytest.raises(ValueError, match="false for a lookalike"):
        Scenario.model_validate(entry)
