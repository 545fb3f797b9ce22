"""InstructionFollowing: a rubric per record, shares by group, and explicit minus implicit needs."""

import json

import pytest
from helpers.judge_scripts import block
from helpers.probe_scripts import run_behind, verdict_meeting
from helpers.servers import scripted

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.requests import chosen_probes
from h2htalk_datasets.generation.run_folder import RunFolder
from h2htalk_metric.cli.probe import instructions
from h2htalk_metric.judge.judge_items import judge_items, probe_rubric
from h2htalk_metric.probes.instructions import measure_instructions
from h2htalk_metric.probes.results import read_result


@pytest.fixture
def judge_name(request):
    """Another name per test: verdicts are cached by name and server, and a later server may get the same port."""
    return request.node.name


@pytest.fixture
def run(tmp_path):
    with scripted(lambda request: "An answer.") as model:
        yield run_behind(model, tmp_path / "run")


def test_a_record_brings_its_explicit_control_and_a_rubric_of_its_own_criteria():
    rows = chosen_probes("InstructionFollowing", 9)
    own = [row for row in rows if row["kind"] != "explicit"]
    assert len(own) == 9
    controls = {row["explicit_control"] for row in own if row["kind"] == "implicit_help"}
    assert controls == {row["id"] for row in rows if row["kind"] == "explicit"}
    for row in rows:
        rubric = probe_rubric(row)
        assert [criterion.question for criterion in rubric.criteria] == row["must"]
        assert all(list(criterion.levels) == [0, 1] for criterion in rubric.criteria)
    assert len({probe_rubric(row).hash for row in own}) == 9


def test_the_difference_is_paired(run, judge_name):
    rows = {row["id"]: row for row in chosen_probes("InstructionFollowing", 12)}
    implicit = [row for row in rows.values() if row["kind"] == "implicit_help"]

    def judge(request):
        # Explicit needs are met; of implicit ones all but the last criterion; of the others only the first.
        row = by_reference[block(request, "REFERENCE")]
        met = {"explicit": len(row["must"]), "implicit_help": len(row["must"]) - 1}
        return verdict_meeting(request, met.get(row["kind"], 1))

    by_reference = {row["reference"]: row for row in rows.values()}
    with scripted(judge) as server:
        instructions(run_folder=run, limit=12, judge=judge_name, base_url=server.url)
    result = read_result(run, "instructions")
    figures, differences = result["figures"]["judge"], result["differences"]["judge"]
    missed = [1 / len(row["must"]) for row in implicit]
    explicit = {"n": 4, "value": 1, "low": 0, "high": 0, "detectable": None}  # no variance in the sample
    assert figures["family"]["explicit"] | {"low": 0, "high": 0} == explicit
    assert figures["family"]["ambiguous_contradictory"]["detectable"] > 0
    assert figures["family"]["implicit_help"]["value"] == pytest.approx(1 - sum(missed) / 4)
    assert figures["family"]["context_aware"]["value"] < 0.51
    assert differences["all"]["difference"] == pytest.approx(sum(missed) / 4)
    # Of the 16 ways to flip the signs of four pairs, only two give as large a difference.
    assert (differences["all"]["items"], differences["all"]["p"]) == (4, 2 / 16)
    assert sum(one["items"] for one in differences["emotion"].values()) == 4
    assert sum(one["items"] for one in differences["implicitness"].values()) == 4
    text = (run / "probes" / "instructions.md").read_text()
    assert "Explicit minus implicit, marked by judge" in text and "| all pairs | 4 |" in text


def test_the_judge_knows_the_need_and_the_model_does_not(run, judge_name):
    seen = []
    with scripted(lambda request: (seen.append(request), verdict_meeting(request, 1))[1]) as server:
        instructions(run_folder=run, limit=2, judge=judge_name, base_url=server.url)
    item = judge_items(run / "probes" / "instructions")[0]
    need = chosen_probes("InstructionFollowing", 2)[0]["need"]
    assert need in item.item_context and need not in item.context
    assert any(need in request["messages"][0]["content"] for request in seen)


def test_a_judge_that_gives_no_verdict_leaves_counts_and_reasons(run, judge_name):
    with scripted(lambda _: "I would rather not.") as server:
        instructions(run_folder=run, limit=2, judge=judge_name, base_url=server.url)
    result = read_result(run, "instructions")
    assert not any(result["figures"]["judge"].values())
    assert "no valid verdict" in (run / "probes" / "instructions.md").read_text()


def test_a_run_is_followed_with_its_own_persona_and_without_a_judge_there_are_no_figures(run, judge_name):
    manifest = json.loads((run / "run.json").read_text())
    manifest["prompts"]["sap"] = ["safety", "secure_base"]
    (run / "run.json").write_text(json.dumps(manifest))
    instructions(run_folder=run, limit=2)
    assert RunFolder(run / "probes" / "instructions").manifest()["prompts"]["sap"] == ["safety", "secure_base"]
    result = read_result(run, "instructions")
    assert (result["figures"], result["differences"], result["agreement"]) == ({}, {}, None)
    assert "No judge and no person has marked" in (run / "probes" / "instructions.md").read_text()


def test_a_run_over_another_set_is_refused(run):
    with pytest.raises(H2HTalkError, match="not a run over InstructionFollowing"):
        measure_instructions(run)
