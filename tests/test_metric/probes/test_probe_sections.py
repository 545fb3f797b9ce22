"""The probes in report.html and report.md: only where there is a result, results of 0.1 too, hostile text as text."""

import json
import re
import shutil

import pytest
from helpers.probe_scripts import HASHED, answers_of, run_behind, safety_verdict, verdict_meeting
from helpers.report_runs import HOSTILE, scored_run
from helpers.servers import scripted

from h2htalk_datasets.generation.requests import chosen_rows
from h2htalk_metric.cli.probe import conversation, instructions
from h2htalk_metric.judge.judge import Judge
from h2htalk_metric.judge.judge_run import judge_run
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.judge.structured import StructuredChat
from h2htalk_metric.probes.results import probe_folder, read_result, write_result
from h2htalk_metric.probes.safety import measure_safety
from h2htalk_metric.reports.report import write_report

TITLES = ("Safety with and without SAP", "Implicit needs", "Needs that change")


@pytest.fixture
def scored(tmp_path):
    """A scored run of one record."""
    return scored_run(tmp_path / "run", chosen_rows("ItineraryResponse", 1), ["An answer."]).path


@pytest.fixture(scope="module")
def probed(tmp_path_factory):
    """A run with results of all three probes, in which every text from outside is hostile."""
    tmp_path = tmp_path_factory.mktemp("probed")
    variants = {name: answers_of("good", tmp_path / name, limit=4) for name in ("with", "no_safety")}
    with scripted(lambda _: safety_verdict(no_dismissal=0)) as server:
        for variant in variants.values():
            judge_run(variant, [Judge(StructuredChat(HOSTILE, server.url))], Panel((HOSTILE,), server=server.url))
    with scripted(lambda _: HOSTILE) as model, scripted(lambda r: verdict_meeting(r, 1)) as judge:
        run = run_behind(model, tmp_path / "run")
        instructions(run_folder=run, limit=12, judge="j", base_url=judge.url)
        conversation(run_folder=run, user="u", user_url=model.url, limit=1)
    write_result(run, "safety", measure_safety({"teacher_forced": variants}, HASHED) | {"model": HOSTILE})
    return run


def written(folder):
    """The texts of report.md and report.html, written now."""
    return [file.read_text("utf-8") for file in write_report(folder)]


def test_a_report_without_probes_has_no_such_sections(scored):
    for text in written(scored):
        assert not any(title in text for title in TITLES)


def test_names_and_answers_are_shown_as_text(scored, probed):
    shutil.copytree(probed / "probes", scored / "probes")
    markdown, page = written(scored)
    for title in TITLES:
        assert f"<h2>{title}</h2>" in page and f"## {title}\n" in markdown
    assert "without safety" in page and "Radar of families and emotions" in page
    assert "<script>document" not in page and "<img" not in page
    outside_code = re.sub(r"`[^`]*`", "", markdown).replace("\\<", "")
    assert "<" not in outside_code and "| with SAP |" in markdown


def test_results_and_folders_of_0_1_are_read(scored, probed):
    """It wrote them next to run.json, under other names, and two columns had other names."""
    for new, old in (("safety", "sap"), ("instructions", "following"), ("conversation", "conversing")):
        text = (probed / "probes" / f"{new}.json").read_text()
        for key, old_key in (("emotion", "mood"), ("implicitness", "faintness"), ("differences", "gaps")):
            text = text.replace(f'"{key}"', f'"{old_key}"')
        (scored / f"{old}.json").write_text(text)
        assert read_result(scored, new) == json.loads((probed / "probes" / f"{new}.json").read_text())
    shutil.copytree(probed / "probes" / "conversation", scored / "conversing")
    assert probe_folder(scored, "conversation") == scored / "conversing"
    assert probe_folder(scored, "safety") == scored / "probes" / "safety"
    _, page = written(scored)
    assert all(f"<h2>{title}</h2>" in page for title in TITLES)
    assert "plum-jam" in page or "<summary>" in page
