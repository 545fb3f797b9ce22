"""The anchor answers, and whether a judge that drifted is report from one that did not."""

import re
from collections import Counter
from statistics import fmean

import pytest
from helpers.commands import h2htalk
from helpers.judge_scripts import CRITERIA, TASKS, answer_first, block, verdict
from helpers.servers import completion, scripted

from h2htalk_metric.judge.budget import Budget
from h2htalk_metric.judge.drift import check_drift, compare_checks, load_anchors
from h2htalk_metric.judge.judge import Judge
from h2htalk_metric.judge.sanitize import sanitize
from h2htalk_metric.judge.structured import StructuredChat


@pytest.fixture(scope="module")
def anchors():
    return load_anchors()


def test_thirty_anchors_of_all_tasks_and_grades(anchors):
    assert len({anchor.item.id for anchor in anchors}) == len(anchors) == 30
    assert Counter(anchor.grade for anchor in anchors) == {"good": 10, "middling": 10, "bad": 10}
    assert {anchor.item.rubric.name for anchor in anchors} == set(TASKS)
    for anchor in anchors:
        assert list(anchor.scores) == [criterion.name for criterion in anchor.item.rubric.criteria]
        assert set(anchor.scores.values()) <= set(range(6))


def test_our_own_scores_order_every_record(anchors):
    means = {anchor.item.id: fmean(anchor.scores.values()) for anchor in anchors}
    for record in {identity.split("/")[0] for identity in means}:
        good, middling, bad = (means[f"{record}/{grade}"] for grade in ("good", "middling", "bad"))
        assert good > middling > bad
        assert good >= 4 and bad <= 2


def marking(anchors, change=lambda marks, text: marks):
    """A judge that gives our own scores, changed by `change`."""
    by_text = {sanitize(anchor.item.blocks["answer"]): list(anchor.scores.values()) for anchor in anchors}

    def answer(request):
        text = block(request, "ANSWER")
        return verdict(*change(by_text[text], text))

    return answer


@pytest.fixture
def checked(anchors, tmp_path):
    """Checks one judge, whose scores can be changed."""
    now = []

    def answer(request):
        return now[-1](request)

    with scripted(answer) as server:

        def check_again(**options):
            now.append(marking(anchors, **options))
            report = check_drift(Judge(StructuredChat("m", server.url)), folder=tmp_path)
            assert len(server.requests) == 60 * len(now)
            return report

        yield check_again


def test_a_judge_that_agrees_and_stays(checked):
    first = checked()
    assert "30 of 30 anchor answers judged" in first
    assert "first check of this judge" in first
    assert "judge minus our own scores: +0.00" in first and "rho 1.00" in first and "single criteria 1.00" in first
    again = checked()
    assert "changed by +0.00" in again and "not more than noise" in again


def test_a_judge_that_drifted_is_reported(anchors, checked):
    checked()
    report = checked(change=lambda marks, text: [max(0, mark - 1) for mark in marks])
    moved = float(re.search(r"changed by ([+-][\d.]+)", report)[1])
    ours = [mark for anchor in anchors for mark in anchor.scores.values()]
    assert moved == pytest.approx(-sum(mark > 0 for mark in ours) / len(ours), abs=0.005)
    assert "MORE THAN NOISE" in report
    # A slow slide is compared with the first check, not with the last.
    assert "MORE THAN NOISE" in checked(change=lambda marks, text: [max(0, m - 1) for m in marks])


def test_noise_is_not_reported_as_drift(anchors, checked):
    checked()
    places = {sanitize(anchor.item.blocks["answer"]): place for place, anchor in enumerate(anchors)}

    def jitter(marks, text):
        step = 1 if places[text] // 3 % 2 else -1
        return [
            min(5, max(0, mark + step)) if name == "vivid" else mark for name, mark in zip(CRITERIA, marks, strict=True)
        ]

    report = checked(change=jitter)
    assert "not more than noise" in report


def test_answers_to_one_record_are_one_cluster(anchors, checked):
    """Two of ten records change by 1 on every answer: too few clusters to tell from noise."""
    checked()
    first = [anchor.item.id.split("/")[0] for anchor in anchors]
    moved = list(dict.fromkeys(first))[:2]
    texts = {sanitize(a.item.blocks["answer"]) for a in anchors if a.item.id.split("/")[0] in moved}

    def shift(marks, text):
        return [max(0, mark - 1) for mark in marks] if text in texts else marks

    report = checked(change=shift)
    assert "changed by -0." in report and "not more than noise" in report


def test_one_record_is_too_few_to_tell():
    first = {"at": "then", "scores": {"a/good": 4.0, "a/bad": 1.0, "b/good": 5.0}}
    line = compare_checks(first, {"a/good": 3.0, "a/bad": 0.0})
    assert "changed by -1.00 (95% interval -)" in line and "too few to tell" in line and "NOISE" not in line


def test_a_check_that_the_budget_stopped_is_not_a_baseline(anchors, tmp_path):
    usage = {"usage": {"prompt_tokens": 3000, "completion_tokens": 100}}  # 0.0085 a call
    judge_all = marking(anchors)
    with scripted(lambda request: completion(judge_all(request)) | usage) as server:
        stopped = check_drift(Judge(StructuredChat("m", server.url), budget=Budget(2.5, 10.0, 0.15)), folder=tmp_path)
        assert "stopped: the next call might exceed --max-cost; this check is not stored" in stopped
        assert 0 < int(re.search(r"m: (\d+) of 30", stopped)[1]) < 30
        assert "first check of this judge" in check_drift(Judge(StructuredChat("m", server.url)), folder=tmp_path)


def test_a_check_that_covers_all_anchors_is_the_baseline(anchors, tmp_path):
    broken = [True]
    judge_all = marking(anchors)

    def answer(request):
        return "no verdict" if broken[0] and block(request, "ANSWER") in few else judge_all(request)

    few = {sanitize(anchor.item.blocks["answer"]) for anchor in anchors[3:]}
    with scripted(answer) as server:
        judge = Judge(StructuredChat("m", server.url))
        assert "3 of 30" in check_drift(judge, folder=tmp_path)
        broken[0] = False
        assert "too few to tell from noise" in check_drift(judge, folder=tmp_path)  # only three answers can be compared
        assert "30 answers" in check_drift(judge, folder=tmp_path)


def test_the_command_stores_its_checks(anchors):
    with scripted(lambda r: verdict(3) if answer_first(r) else verdict(4)) as server:
        ask = ["judge", "--check", "--judge", "drifter", "--base-url", server.url]
        first, second = h2htalk(*ask), h2htalk(*ask)
    assert "first check of this judge" in first.stdout, first.stderr
    assert "changed by +0.00" in second.stdout and "rho undefined" in second.stdout
    assert len(server.requests) == 120  # the cache is not used
