"""Judging beyond the three tasks of Eq. 3: rubrics, points of records, scores next to S, anchors."""

from collections import Counter
from statistics import fmean

import pytest
from helpers.commands import h2htalk
from helpers.judge_scripts import TASKS as JUDGED
from helpers.judge_scripts import make_run, verdict_of_schema
from helpers.servers import scripted

from h2htalk_datasets import TASKS, load
from h2htalk_metric.judge.drift import check_drift, load_anchors
from h2htalk_metric.judge.judge import Judge
from h2htalk_metric.judge.judge_items import judge_item, judge_items
from h2htalk_metric.judge.judged_run import read_judged
from h2htalk_metric.judge.judgement import item_key
from h2htalk_metric.judge.panel_scores import other_task_scores, panel_scores
from h2htalk_metric.judge.prompt import judging_messages
from h2htalk_metric.judge.rubric import load_rubric
from h2htalk_metric.judge.structured import StructuredChat
from h2htalk_metric.runs.scoring import score_run

OTHERS = tuple(task for task in TASKS if task not in JUDGED)


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_a_rubric_of_five_criteria_with_six_levels(task):
    rubric = load_rubric(task)
    assert rubric.name == task and len(rubric.criteria) == 5
    for criterion in rubric.criteria:
        assert list(criterion.levels) == list(range(6))
        assert len(set(criterion.levels.values())) == 6


def test_the_other_tasks_have_anchors_of_three_grades_that_our_scores_order():
    anchors = load_anchors(tasks=OTHERS)
    assert {anchor.item.rubric.name for anchor in anchors} == set(OTHERS)
    assert Counter(anchor.grade for anchor in anchors) == {"good": 8, "middling": 8, "bad": 8}
    for task in OTHERS:
        of_task = [anchor for anchor in anchors if anchor.item.rubric.name == task]
        for anchor in of_task:
            assert list(anchor.scores) == [criterion.name for criterion in anchor.item.rubric.criteria]
        good, middling, bad = (fmean(one.scores.values()) for one in of_task)
        assert good >= 4.5 > middling > bad and bad <= 2
    assert len(load_anchors()) == 30 and len(load_anchors(tasks=tuple(TASKS))) == 54


def test_a_check_of_other_tasks_is_a_series_of_its_own(tmp_path):
    with scripted(lambda request: verdict_of_schema(request, 3)) as server:
        judge = Judge(StructuredChat("m", server.url))
        first = check_drift(judge, folder=tmp_path, tasks=OTHERS)
        assert "m: 24 of 24 anchor answers judged" in first and "first check" in first
        assert len(server.requests) == 48
        again = check_drift(judge, folder=tmp_path, tasks=OTHERS)
        assert "24 answers, the largest change 0.00" in again
        assert "first check" in check_drift(judge, folder=tmp_path, tasks=JUDGED)


def test_points_of_a_record_are_shown_to_the_judge_and_are_part_of_its_key():
    record = dict(load("DialogueBase")[0]) | {"points": []}
    plain = judge_item(record, "An answer.")
    assert plain.item_context is None
    pointed = judge_item(record | {"points": ["she says yes", "she names Thursday"]}, "An answer.")
    assert pointed.item_context == "What a good answer does:\n- she says yes\n- she names Thursday"
    system = judging_messages(pointed.rubric, pointed.context, pointed.blocks, item_context=pointed.item_context)[0]
    assert "What a good answer does:\n- she says yes" in system["content"]
    assert item_key(plain, "m", 0, 0) != item_key(pointed, "m", 0, 0)


@pytest.fixture
def run(tmp_path):
    tasks = ("ItineraryBasic", "DialogueBase", "RecollectionSynthesis")
    make_run(tmp_path / "run", tasks=tasks, step=40, answer=lambda record, i: f"{record['reference']} {i}")
    score_run(tmp_path / "run", "demo")
    return tmp_path / "run"


def test_other_tasks_are_judged_on_request_and_do_not_enter_j(run):
    with scripted(lambda request: verdict_of_schema(request, 4)) as server:
        command = ["judge", run, "--judge", "m", "--base-url", server.url]
        assert "2 judgements to make, 4 calls" in h2htalk(*command, "--dry-run").stdout
        assert "6 judgements to make, 12 calls" in h2htalk(*command, "--tasks", "all", "--dry-run").stdout
        three = h2htalk(*command)
        assert three.returncode == 0, three.stderr
        before = read_judged(run)
        assert other_task_scores(run) is None and len(server.requests) == 4
        every = h2htalk(*command, "--tasks", "all")
        assert every.returncode == 0, every.stderr
        assert len(server.requests) == 12  # the three tasks were not judged again
    after = read_judged(run)
    assert after.items.equals(before.items) and after.signature == before.signature
    others = other_task_scores(run)
    assert others["task"].tolist() == ["DialogueBase"] * 2 + ["RecollectionSynthesis"] * 2
    assert others["judge_score"].tolist() == [4.0] * 4 and others["j_with_judge"].isna().all()
    assert not others["flagged"].any()
    assert "judge_score of other tasks" in every.stdout
    report = (run / "report.md").read_text()
    assert "## Judged, other tasks" in report and f"DialogueBase {load_rubric('DialogueBase').hash}" in report
    assert [item.id for item in judge_items(run)] == panel_scores(run)["id"].tolist()


def test_a_run_without_the_tasks_of_eq_3_can_be_judged(tmp_path):
    run = tmp_path / "run"
    make_run(run, tasks=("DialogueBase",), step=40)
    score_run(run, "demo")
    with scripted(lambda request: verdict_of_schema(request, 4)) as server:
        command = ["judge", run, "--judge", "m", "--base-url", server.url]
        refused = h2htalk(*command)
        assert refused.returncode == 2 and "no answers of the tasks to judge" in refused.stderr
        done = h2htalk(*command, "--tasks", "DialogueBase")
    assert done.returncode == 0, done.stderr
    assert read_judged(run) is None
    assert "## Judged, other tasks" in (run / "report.md").read_text()
    wrong = h2htalk("judge", run, "--judge", "m", "--base-url", "http://127.0.0.1:9/v1", "--tasks", "DialogBase")
    assert wrong.returncode == 2 and "DialogueBase" in wrong.stderr
