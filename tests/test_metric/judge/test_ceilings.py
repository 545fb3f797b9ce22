"""J on the scale of reference ceilings, and flags by share."""

import json

import numpy as np
import pytest
from helpers.commands import h2htalk
from helpers.judge_scripts import TASKS as JUDGED
from helpers.review_parts import judged_run

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.judge.blend import lowest
from h2htalk_metric.judge.ceilings import ceiling_scale, read_ceilings, records_hash
from h2htalk_metric.judge.flags import flag_summary, why_flagged
from h2htalk_metric.judge.judged_run import read_judged
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.judge.panel_scores import panel_scores
from h2htalk_metric.judge.scale import Scale
from h2htalk_metric.metrics.signature import signature_line
from h2htalk_metric.metrics.similarity import DEMO_NAME
from h2htalk_metric.reports.judged_tables import judged as judged_section
from h2htalk_metric.runs.run import Run

SCALE = Scale("ceiling", {"ItineraryBasic": 0.25, "ItineraryMiddle": 0.4, "ItineraryAdvanced": 0.8}, "by hand")


@pytest.fixture
def judged(tmp_path):
    """S = 0.5, embedder "by hand", two answers per task, scores 1 2 | 4 5 | 5 and a failure."""
    return judged_run(tmp_path / "run")


def test_ceilings_of_the_shipped_records_ship_with_the_package():
    measured = read_ceilings()[DEMO_NAME]
    assert list(measured) == list(TASKS)
    for task, ceiling in measured.items():
        assert 0 < ceiling.low < ceiling.mean < ceiling.high < 1 and ceiling.n >= 20
        assert ceiling.records == records_hash(task), "measure again: python benchmarks/ceilings.py demo"


def test_s_is_divided_by_the_ceiling_and_capped():
    assert SCALE.scaled("ItineraryAdvanced", 0.4) == pytest.approx(0.5)
    assert SCALE.scaled("ItineraryBasic", 0.4) == 1.0
    assert Scale().scaled("ItineraryBasic", 0.4) == 0.4
    panel = Panel((), scale=SCALE)
    assert panel.j("ItineraryAdvanced", 0.4, 4) == pytest.approx(0.6 * 2.5 + 1.6)
    assert why_flagged(panel) == (
        "J reaches 3.5 only if S is at least 0.50 of the config's ceiling (ItineraryBasic 0.12, ItineraryMiddle 0.20, "
        "ItineraryAdvanced 0.40) even with a perfect judge"
    )


def test_j_flags_signature_and_report_on_the_scale_of_ceilings(judged):
    paper = read_judged(judged).signature
    assert paper["scale"] == "paper" and "ceilings" not in paper
    Panel(("model",), scale=SCALE).write(judged)
    assert Panel.read(judged) == Panel(("model",), scale=SCALE)
    result = read_judged(judged)
    # 0.6 * 5 * min(1, 0.5 / ceiling) + 0.4 * score; S5 is 5, 5 and 3.125.
    assert result.items["j"].tolist()[:5] == pytest.approx([3.4, 3.8, 4.6, 5.0, 3.875])
    assert result.items["flagged"].tolist() == [True, False, False, False, False, False]
    assert result.by_task()["s5"].tolist() == pytest.approx([5, 5, 3.125])
    assert "scale:ceiling|ceilings:ItineraryBasic=0.25," in signature_line(result.signature)
    text = "\n".join(block for block in judged_section(result).blocks if isinstance(block, str))
    assert "S5 = 5 S / ceiling" in text and "ItineraryAdvanced 0.800; by hand" in text


def test_a_share_is_flagged_instead_of_those_below_tau(judged):
    assert lowest([3, 1, 2, 4], 0.5) == 2 and lowest([3, 1, 2, 4], 0.51) == 3 and lowest(range(70), 0.1) == 6
    Panel(("model",), tau_share=0.4).write(judged)
    rows = panel_scores(judged)  # J 1.9, 2.3, 3.1, 3.5, 3.5 and none
    assert rows["flagged"].tolist() == [True, True, False, False, False, False]
    assert flag_summary(rows, Panel.read(judged)).startswith("2 of 5 judged answers are flagged: the lowest 40% by J;")
    assert read_judged(judged).signature["tau_share"] == 0.4
    assert not Panel((), tau_share=0.4).flags(np.array([np.nan])).any()


def test_a_panel_of_an_earlier_version_is_on_the_papers_scale(judged):
    old = {"judges": ["model"], "evidence": 0, "seed": 0, "alpha": 0.6, "tau": 3.5, "server": None}
    (judged / "judge.json").write_text(json.dumps(old))
    assert Panel.read(judged) == Panel(("model",))
    assert read_judged(judged).items["j"].tolist()[:5] == pytest.approx([1.9, 2.3, 3.1, 3.5, 3.5])


def test_without_ceilings_the_scale_is_refused_and_the_line_says_how_to_measure(judged):
    command = ["judge", judged, "--judge", "m", "--base-url", "http://127.0.0.1:9/v1", "--dry-run"]
    refused = h2htalk(*command, "--scale", "ceiling")
    assert refused.returncode == 2 and len(refused.stderr.strip().splitlines()) == 1
    assert "for the embedder 'by hand'; measure them with: python benchmarks/ceilings.py 'by hand'" in refused.stderr
    refused = h2htalk(*command, "--scale", "cieling")
    assert refused.returncode == 2 and "Did you mean ceiling? There are: paper, ceiling" in refused.stderr
    score = json.loads((judged / "score.json").read_text())
    (judged / "score.json").write_text(json.dumps(score | {"signature": {"embedder": DEMO_NAME}}))
    measured = read_ceilings()[DEMO_NAME]
    assert ceiling_scale(Run(judged)) == Scale("ceiling", {task: measured[task].mean for task in JUDGED}, DEMO_NAME)
    accepted = h2htalk(*command, "--scale", "ceiling")
    assert accepted.returncode == 0, accepted.stderr
    needed = 0.5 * measured["ItineraryBasic"].mean  # with the paper's alpha and tau
    assert f"of the config's ceiling (ItineraryBasic {needed:.2f}," in accepted.stdout


def test_ceilings_of_other_records_and_of_another_embedder_are_refused(judged, monkeypatch):
    Panel(("model",), scale=Scale("ceiling", SCALE.ceilings, "another")).write(judged)
    with pytest.raises(H2HTalkError, match="ceilings by 'another', but S is by 'by hand'; run h2htalk judge again"):
        panel_scores(judged)
    (judged / "score.json").write_text(json.dumps({"signature": {"embedder": DEMO_NAME}}))
    monkeypatch.setattr("h2htalk_metric.judge.ceilings.records_hash", lambda task: "0" * 12)
    with pytest.raises(H2HTalkError, match="are of another version of the dataset"):
        ceiling_scale(Run(judged))
