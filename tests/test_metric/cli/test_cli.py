"""The command line: the main job on real input, old names, and every wrong input as one line."""

import json

import pytest
from helpers.commands import h2htalk
from typer.main import get_command
from typer.testing import CliRunner

from h2htalk_metric.cli.main import app

FEW = ["--tasks", "ItineraryResponse,RecollectionRefinement", "--limit", "2"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("cli") / "run"
    done = h2htalk("run", "--model", "demo", "--embedder", "demo", *FEW, "--out", out)
    assert done.returncode == 0, done.stderr
    return out, done


def test_the_main_job_ends_in_a_table_and_a_report(finished):
    out, done = finished
    assert "ItineraryResponse" in done.stdout
    assert "answers: 4/4" in done.stderr
    report = (out / "report.md").read_text()
    assert "| DialogueBase |" in report
    assert "embedder:demo:all-MiniLM-L6-v2" in report
    assert "embedder:demo:all-MiniLM-L6-v2" in (out / "report.html").read_text()
    summary = json.loads((out / "score.json").read_text())
    assert summary["row"]["Overall"] is None  # nine configs are missing
    assert 0 < summary["row"]["ItineraryResponse"] < 100


def test_score_and_report_can_be_run_again(finished):
    out, _ = finished
    before = (out / "report.md").read_text()
    assert h2htalk("score", out, "--embedder", "demo").returncode == 0
    assert h2htalk("report", out).returncode == 0
    assert (out / "report.md").read_text() == before


def test_tables_are_plain_and_complete_where_jupyter_forces_colour(finished, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = h2htalk("report", finished[0]).stdout
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) > 80


def test_merge_restores_a_deleted_predictions_file(finished):
    out, _ = finished
    before = (out / "predictions.jsonl").read_bytes()
    (out / "predictions.jsonl").unlink()
    refused = h2htalk("score", out, "--embedder", "demo")
    assert (refused.returncode, "not complete" in refused.stderr) == (2, True)
    assert h2htalk("merge", out).returncode == 0
    assert (out / "predictions.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["generate", "--model", "demo", "--tasks", "DialogBase", "--out", "x"], "Did you mean DialogueBase"),
        (["generate", "--model", "demo", "--sap", "autonmy", "--limit", "1", "--out", "x"], "Did you mean autonomy"),
        (
            ["generate", "--model", "no-such/model", "--limit", "1", "--out", "x"],
            "cannot load the model 'no-such/model'",
        ),
        (["run", "--model", "demo", "--limit", "1", "--out", "x"], "cannot load the embedder 'BAAI/bge-m3'"),
        (["generate", "--model", "demo", "--limit", "0", "--out", "x"], "--limit must be at least 1"),
        (["score", "nowhere"], "nowhere is not a run folder"),
        (["report", "nowhere"], "nowhere is not a run folder"),
        (["merge", "nowhere"], "nowhere is not a run folder"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(arguments, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused = h2htalk(*arguments)
    assert refused.returncode == 2
    assert complaint in refused.stderr
    assert "Traceback" not in refused.stderr + refused.stdout
    assert len([line for line in refused.stderr.splitlines() if line.startswith("error")]) == 1
    assert not (tmp_path / "x").exists()


def test_a_foreign_folder_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    refused = h2htalk("generate", "--model", "demo", "--limit", "1", "--tasks", "ItineraryResponse", "--out", tmp_path)
    assert refused.returncode == 2
    assert "is not a run folder" in refused.stderr


def test_corpus_check_prints_every_check(tmp_path):
    checked = h2htalk("corpus", "check")
    assert checked.returncode == 0, checked.stdout
    assert "distinct-2" in checked.stdout
    assert "FAILED" not in checked.stdout


@pytest.fixture(scope="module")
def without_sap(tiny_model, tmp_path_factory):
    out = tmp_path_factory.mktemp("cli") / "without"
    done = h2htalk("run", "--model", tiny_model, "--embedder", "demo", *FEW, "--sap", "none", "--out", out)
    assert done.returncode == 0, done.stderr
    return out


def test_compare_prints_differences_intervals_and_p_values(finished, without_sap):
    compared = h2htalk("compare", finished[0], without_sap)
    assert compared.returncode == 0, compared.stderr
    assert "ItineraryResponse" in compared.stdout
    assert "p (Holm)" in compared.stdout
    assert " to " in compared.stdout


def test_compare_refuses_what_does_not_compare(finished, without_sap, tmp_path):
    import shutil

    other = tmp_path / "other"
    shutil.copytree(without_sap, other)
    summary = json.loads((other / "score.json").read_text())
    summary["signature"]["embedder"] = "another"
    (other / "score.json").write_text(json.dumps(summary))
    refused = h2htalk("compare", finished[0], other)
    assert refused.returncode == 2
    assert "differ in embedder" in refused.stderr


def test_verify_confirms_and_refutes(without_sap):
    assert "is confirmed: every score" in h2htalk("verify", without_sap).stdout
    file = without_sap / "predictions.jsonl"
    lines = file.read_text().splitlines()
    first = json.loads(lines[0])
    first["prediction"] = "Something that was never said."
    file.write_text("\n".join([json.dumps(first), *lines[1:]]) + "\n")
    refuted = h2htalk("verify", without_sap)
    assert refuted.returncode == 2
    assert f"{first['id']}: stored S" in refuted.stderr


def test_scores_that_were_edited_are_refuted(finished, tmp_path):
    import shutil

    import pandas as pd

    out = tmp_path / "edited"
    shutil.copytree(finished[0], out)
    items = pd.read_parquet(out / "scores.parquet")
    items.loc[0, "composite"] += 0.1
    items.to_parquet(out / "scores.parquet")
    refuted = h2htalk("verify", out)
    assert refuted.returncode == 2
    assert "1 differences" in refuted.stderr


def invoke(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.mark.parametrize(
    ("arguments", "shown", "old"),
    [
        (["judge"], ["--max-connections", "--explanations"], ["--concurrency", "--evidence"]),
        (["generate"], ["--max-connections"], ["--in-flight"]),
        (["describe"], ["--authors-release"], ["--beside"]),
    ],
)
def test_old_names_of_options_are_accepted_but_not_shown(arguments, shown, old, tmp_path):
    text = invoke(*arguments, "--help").output
    assert all(name in text for name in shown) and not any(name in text for name in old)
    for name in old:
        refused = invoke(*arguments, name, "no-number")
        assert "No such option" not in refused.output
    assert "No such option" in invoke(*arguments, "--no-such-option").output


def test_old_names_of_commands_are_accepted_and_only_sap_is_shown(tmp_path):
    text = invoke("--help").output
    assert " sap " in text and " probe " in text
    assert " follow " not in text and " converse " not in text
    for name in ("sap", "follow", "converse"):
        assert "RUN" in invoke(name, "--help").output
    probes = invoke("probe", "--help").output
    assert all(name in probes for name in ("safety", "instructions", "conversation"))


def test_every_option_has_a_help_text():
    def options(command):
        yield from ((command.name, parameter) for parameter in command.params if parameter.name != "help")
        for below in getattr(command, "commands", {}).values():
            yield from options(below)

    missing = [(name, p.name) for name, p in options(get_command(app)) if not getattr(p, "help", None)]
    assert missing == []
