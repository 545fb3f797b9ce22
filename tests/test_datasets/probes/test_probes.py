"""The probe sets: complete, with requirements for every answer, and separate from the benchmark."""

from collections import Counter

import pytest

from h2htalk_datasets import TASKS, load
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.requests import chosen_rows
from h2htalk_datasets.loading import manifest
from h2htalk_datasets.probes import PROBES, load_probe
from h2htalk_datasets.probes.schema import KINDS, Instruction, Scenario, read_entries
from h2htalk_datasets.probes.user_briefs import Brief
from h2htalk_datasets.schema import Probe
from h2htalk_datasets.tasks import select_tasks
from h2htalk_metric import aggregate


@pytest.fixture(scope="module")
def safety():
    return load_probe("SafetyHighRisk")


@pytest.fixture(scope="module")
def following():
    return load_probe("InstructionFollowing")


def test_27_dangerous_and_6_harmless_scenarios_in_150_interactions_over_all_kinds(safety):
    scenarios = {row["scenario"]: row["kind"] for row in safety}
    kinds = Counter(scenarios.values())
    assert set(kinds) == set(KINDS)
    assert (kinds.pop("benign_lookalike"), kinds.total(), len(safety)) == (6, 27, 150)


def test_every_later_interaction_adds_one_user_turn_to_an_earlier_one(safety):
    """So that a model can hear its own answers: each of them is the answer to an interaction."""
    said = {
        (row["scenario"], tuple(turn["content"] for turn in row["history"] if turn["role"] == "user")) for row in safety
    }
    assert len(said) == len(safety)
    assert all((scenario, turns[:-1]) in said for scenario, turns in said if len(turns) > 1)


def test_a_context_aware_record_has_earlier_turns(following):
    assert all(len(row["history"]) >= 2 for row in following if row["kind"] == "context_aware")


def test_every_interaction_says_what_an_answer_must_and_must_not(safety):
    assert all(row["must"] and row["must_not"] for row in safety)
    assert not any(row["danger"] for row in safety if row["kind"] == "benign_lookalike")
    assert len({row["scenario"] for row in safety if row["danger"]}) >= 24


def test_three_families_and_an_explicit_control_for_each_implicit_record(following):
    kinds = Counter(row["kind"] for row in following)
    assert kinds["implicit_help"] == kinds["explicit"] >= 60
    assert kinds["ambiguous_contradictory"] >= 60
    assert kinds["context_aware"] >= 60
    by_id = {row["id"]: row for row in following}
    for row in following:
        assert 2 <= len(row["must"]) <= 4
        assert (row["explicit_control"] is not None) == (row["kind"] == "implicit_help")
        if row["explicit_control"]:
            control = by_id[row["explicit_control"]]
            assert control["kind"] == "explicit"
            assert (row["need"], row["must"]) == (control["need"], control["must"])
            assert row["history"] != control["history"]


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
    """For the overlap of texts see test_probe_checks.py."""
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


INTERACTION = {"history": [{"user": "x"}], "stage": "opening", "must": ["a"], "must_not": ["b"], "reference": "c"}
PEOPLE = {"slug": "x", "companion": {"name": "A", "profile": "A."}, "user": "B"}
SCENARIO = PEOPLE | {"kind": "goodbye_message", "danger": True, "interactions": [INTERACTION]}
INSTRUCTION = PEOPLE | {
    "family": "context_aware",
    "emotion": "plain",
    "history": [{"user": "x"}],
    "implicitness": 1,
    "need": "n",
    "criteria": ["a", "b"],
    "reference": "c",
}


@pytest.mark.parametrize(
    ("schema", "entry", "error"),
    [
        (Scenario, SCENARIO | {"kind": "benign_lookalike"}, "false for a benign_lookalike"),
        (Scenario, SCENARIO | {"interactions": [INTERACTION | {"must_not": []}]}, "at least 1 item"),
        (Instruction, INSTRUCTION | {"criteria": ["a"]}, "at least 2 items"),
        (Instruction, INSTRUCTION | {"need": " "}, "need"),
        (Instruction, INSTRUCTION | {"family": "implicit_help"}, "explicit_control: required for implicit_help"),
        (
            Instruction,
            INSTRUCTION | {"explicit_control": {"history": [{"user": "y"}], "reference": "d"}},
            "not allowed for the other families",
        ),
    ],
)
def test_a_source_that_violates_the_schema_is_an_error(schema, entry, error):
    schema.model_validate({Scenario: SCENARIO, Instruction: INSTRUCTION}[schema])
    with pytest.raises(ValueError, match=error):
        schema.model_validate(entry)


def test_an_entry_that_violates_the_schema_is_named(tmp_path):
    file = tmp_path / "briefs.yaml"
    file.write_text("- {slug: a}\n", "utf-8")
    with pytest.raises(H2HTalkError, match=r"briefs\.yaml, entry 1: companion"):
        read_entries(file, Brief.model_validate)


def test_a_reference_of_more_than_80_words_is_an_error(safety):
    columns = {name: value for name, value in safety[0].items() if name != "messages"}
    assert Probe.model_validate(columns | {"reference": "word — " * 80})
    with pytest.raises(ValueError, match="has over 80 words"):
        Probe.model_validate(columns | {"reference": "word " * 81})
