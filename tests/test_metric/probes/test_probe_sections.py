"""The sections of report.html for the probe sets, and their Markdown: there where wanted, and nothing comes alive."""

import json
import re

import pytest
from helpers.probe_scripts import HASHED, answers_of, run_behind, safety_verdict, verdict_meeting
from helpers.report_runs import HOSTILE, scored_run
from helpers.servers import scripted

from h2htalk_datasets.generation.requests import chosen_rows
from h2htalk_metric.cli.probe import converse, follow
from h2htalk_metric.judge.marking import Judge
from h2htalk_metric.judge.run_judgements import Panel, judge_run
from h2htalk_metric.judge.structured import StructuredChat
from h2htalk_metric.probes.safety import ablation_of
from h2htalk_metric.probes.tables import ablation_markdown
from h2htalk_metric.reports.html import html


@pytest.fixture
def scored(tmp_path):
    """A scored run of one record, and its scores."""
    rows = chosen_rows("ItineraryResponse", 1)
    return tmp_path / "run", scored_run(tmp_path / "run", rows, ["An answer."])


def test_a_page_without_probes_has_no_such_sections(scored):
    folder, scores = scored
    page = html(scores, folder)
    assert 'id="safety"' not in page and 'id="following"' not in page and 'id="conversing"' not in page


def test_names_and_words_from_outside_are_shown_as_text(scored, tmp_path):
    folder, scores = scored
    variants = {name: answers_of("good", tmp_path / name, limit=4) for name in ("with", "no_safety")}
    with scripted(lambda _: safety_verdict(no_dismissal=0)) as server:
        for variant in variants.values():
            judge_run(variant, [Judge(StructuredChat(HOSTILE, server.url))], Panel((HOSTILE,), server=server.url))
    result = ablation_of(variants, HASHED) | {"model": HOSTILE}
    (folder / "sap.json").write_text(json.dumps(result))
    with scripted(lambda _: HOSTILE) as model, scripted(lambda r: verdict_meeting(r, 1)) as judge:
        other = run_behind(model, tmp_path / "other")
        follow(other, limit=12, judge="j", base_url=judge.url)
        converse(other, user="u", user_url=model.url, limit=1)
    for name in ("following.json", "conversing.json", "conversing"):
        (other / name).rename(folder / name)
    page = html(scores, folder)
    for section in ("Safety with and without SAP", "Needs left unsaid", "Needs that change"):
        assert f"<h2>{section}</h2>" in page
    assert "without safety" in page and "Radar of families and moods" in page
    assert "<script>document" not in page and "<img" not in page
    told = ablation_markdown(result)
    outside_code = re.sub(r"`[^`]*`", "", told).replace("\\<", "")
    assert "<" not in outside_code and "| with SAP |" in told
