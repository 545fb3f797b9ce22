"""InstructionFollowing: a rubric a record, figures by group, and the gap between what is said and what is not."""

import json

import pytest
from helpers.judge_scripts import block
from helpers.probe_scripts import run_behind, verdict_meeting
from helpers.servers import scripted

from h2htalk_datasets.generation.run import chosen_probes
from h2htalk_datasets.generation.run_folder import RunFolder
from h2htalk_metric.cli.probe import follow
from h2htalk_metric.judge.items import probe_items, rubric_of


@pytest.fixture(autouse=True)
def own_verdicts(tmp_path, monkeypatch):
    """Kept verdicts of this test alone: a later one's server may get the same port."""
    monkeypatch.setattr("h2htalk_metric.judge.cache.HF_HOME", str(tmp_path / "home"))


@pytest.fixture
def run(tmp_path):
    with scripted(lambda request: "An answer.") as model:
        yield run_behind(model, tmp_path / "run")


def test_a_record_brings_its_twin_and_a_rubric_of_its_own_criteria():
    rows = chosen_probes("InstructionFollowing", 9)
    own = [row for row in rows if row["twin_of"] is None]
    assert len(own) == 9
    assert {row["twin_of"] for row in rows if row["twin_of"]} == {r["id"] for r in own if r["kind"] == "implicit_help"}
    for row in rows:
        rubric = rubric_of(row)
        assert [criterion.question for criterion in rubric.criteria] == row["must"]
        assert all(list(criterion.levels) == [0, 1] for criterion in rubric.criteria)
    assert len({rubric_of(row).hash for row in own}) == 9


def test_the_gap_is_paired_over_twins(run):
    rows = {row["id"]: row for row in chosen_probes("InstructionFollowing", 12)}
    implicit = [row for row in rows.values() if row["kind"] == "implicit_help"]

    def judge(request):
        # Said aloud every need is met; hinted at, all but the last criterion; of the others only the first.
        row = by_reference[block(request, "REFERENCE")]
        met = {"explicit": len(row["must"]), "implicit_help": len(row["must"]) - 1}
        return verdict_meeting(request, met.get(row["kind"], 1))

    by_reference = {row["reference"]: row for row in rows.values()}
    with scripted(judge) as server:
        follow(run, limit=12, judge="j", base_url=server.url)
    result = json.loads((run / "following.json").read_text())
    figures, gaps = result["figures"]["judge"], result["gaps"]["judge"]
    missed = [1 / len(row["must"]) for row in implicit]
    assert figures["family"]["explicit"] | {"low": 0, "high": 0} == {"n": 4, "value": 1, "low": 0, "high": 0}
    assert figures["family"]["implicit_help"]["value"] == pytest.approx(1 - sum(missed) / 4)
    assert figures["family"]["context_aware"]["value"] < 0.51
    assert gaps["all"]["difference"] == pytest.approx(sum(missed) / 4)
    # Of the 16 ways to swap four pairs only two reach as far.
    assert (gaps["all"]["items"], gaps["all"]["p"]) == (4, 2 / 16)
    assert sum(gap["items"] for gap in gaps["mood"].values()) == 4
    assert sum(gap["items"] for gap in gaps["faintness"].values()) == 4
    told = (run / "following.md").read_text()
    assert "Explicit less implicit, by judge" in told and "| all twins | 4 |" in told


def test_the_judge_knows_the_need_and_the_model_does_not(run):
    seen = []
    with scripted(lambda request: (seen.append(request), verdict_meeting(request, 1))[1]) as server:
        follow(run, limit=2, judge="j", base_url=server.url)
    item = probe_items(run / "following")[0]
    need = chosen_probes("InstructionFollowing", 2)[0]["need"]
    assert need in item.particulars and need not in item.context
    assert any(need in request["messages"][0]["content"] for request in seen)


def test_a_judge_that_gives_no_verdict_leaves_counts_and_reasons(run):
    with scripted(lambda _: "I would rather not.") as server:
        follow(run, limit=2, judge="j", base_url=server.url)
    result = json.loads((run / "following.json").read_text())
    assert not any(result["figures"]["judge"].values())
    assert "no valid verdict" in (run / "following.md").read_text()


def test_a_run_is_followed_with_its_own_persona_and_without_a_judge_there_are_no_figures(run):
    manifest = json.loads((run / "run.json").read_text())
    manifest["prompts"]["sap"] = ["safety", "secure_base"]
    (run / "run.json").write_text(json.dumps(manifest))
    follow(run, limit=2)
    assert RunFolder(run / "following").manifest()["prompts"]["sap"] == ["safety", "secure_base"]
    result = json.loads((run / "following.json").read_text())
    assert (result["figures"], result["gaps"], result["agreement"]) == ({}, {}, None)
    assert "Nobody has marked" in (run / "following.md").read_text()
