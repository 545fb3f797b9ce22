"""The anchor answers, and whether a judge that moved is told from one that did not."""

import re
from collections import Counter
from statistics import fmean

import pytest
from helpers.commands import h2htalk
from helpers.judge_scripts import CRITERIA, TASKS, answer_first, block, verdict
from helpers.servers import completion, scripted

from h2htalk_metric.judge.cost import Purse
from h2htalk_metric.judge.drift import _moved, check, load_anchors
from h2htalk_metric.judge.marking import Judge
from h2htalk_metric.judge.prompt import neutralise
from h2htalk_metric.judge.structured import StructuredChat


@pytest.fixture(scope="module")
def anchors():
    return load_anchors()


def test_thirty_anchors_of_all_tasks_and_grades(anchors):
    assert len({anchor.item.id for anchor in anchors}) == len(anchors) == 30
    assert Counter(anchor.grade for anchor in anchors) == {"good": 10, "middling": 10, "bad": 10}
    assert {anchor.item.rubric.name for anchor in anchors} == set(TASKS)
    for anchor in anchors:
        assert list(anchor.marks) == [criterion.name for criterion in anchor.item.rubric.criteria]
        assert set(anchor.marks.values()) <= set(range(6))


def test_our_marks_order_every_record(anchors):
    means = {anchor.item.id: fmean(anchor.marks.values()) for anchor in anchors}
    for record in {identity.split("/")[0] for identity in means}:
        good, middling, bad = (means[f"{record}/{grade}"] for grade in ("good", "middling", "bad"))
        assert good > middling > bad
        assert good >= 4 and bad <= 2


def marking(anchors, change=lambda marks, text: marks):
    """A judge that knows our marks by heart, changed at will."""
    by_text = {neutralise(anchor.item.blocks["answer"]): list(anchor.marks.values()) for anchor in anchors}

    def answer(request):
        text = block(request, "ANSWER")
        return verdict(*change(by_text[text], text))

    return answer


@pytest.fixture
def checked(anchors, tmp_path):
    """Checks one judge, whose marks change at will."""
    now = []

    def answer(request):
        return now[-1](request)

    with scripted(answer) as server:

        def check_again(**options):
            now.append(marking(anchors, **options))
            told = check(Judge(StructuredChat("m", server.url)), folder=tmp_path)
            assert len(server.asked) == 60 * len(now)
            return told

        yield check_again


def test_a_judge_that_agrees_and_stays(checked):
    first = checked()
    assert "30 of 30 anchor answers marked" in first
    assert "first check of this judge" in first
    assert "beside our own marks: +0.00" in first and "rho 1.00" in first and "single marks 1.00" in first
    again = checked()
    assert "moved by +0.00" in again and "no more than noise" in again


def test_a_judge_that_moved_is_told(anchors, checked):
    checked()
    told = checked(change=lambda marks, text: [max(0, mark - 1) for mark in marks])
    moved = float(re.search(r"moved by ([+-][\d.]+)", told)[1])
    ours = [mark for anchor in anchors for mark in anchor.marks.values()]
    assert moved == pytest.approx(-sum(mark > 0 for mark in ours) / len(ours), abs=0.005)
    assert "MORE THAN NOISE" in told
    # A slow slide is compared with the first check, not with the last.
    assert "MORE THAN NOISE" in checked(change=lambda marks, text: [max(0, m - 1) for m in marks])


def test_noise_is_not_called_a_move(anchors, checked):
    checked()
    places = {neutralise(anchor.item.blocks["answer"]): place for place, anchor in enumerate(anchors)}

    def jitter(marks, text):
        step = 1 if places[text] // 3 % 2 else -1
        return [
            min(5, max(0, mark + step)) if name == "vivid" else mark for name, mark in zip(CRITERIA, marks, strict=True)
        ]

    told = checked(change=jitter)
    assert "no more than noise" in told


def test_answers_to_one_record_are_no_independent_draws(anchors, checked):
    """Two of ten records move by 1 on every answer: that a resample has neither has odds 0.8^10, about a tenth."""
    checked()
    first = [anchor.item.id.split("/")[0] for anchor in anchors]
    moved = list(dict.fromkeys(first))[:2]
    texts = {neutralise(a.item.blocks["answer"]) for a in anchors if a.item.id.split("/")[0] in moved}

    def shift(marks, text):
        return [max(0, mark - 1) for mark in marks] if text in texts else marks

    told = checked(change=shift)
    assert "moved by -0." in told and "no more than noise" in told


def test_of_a_single_record_nothing_is_said_to_have_moved():
    first = {"at": "then", "scores": {"a/good": 4.0, "a/bad": 1.0, "b/good": 5.0}}
    told = _moved(first, {"a/good": 3.0, "a/bad": 0.0})
    assert "moved by -1.00 (95% interval -)" in told and "too few to tell" in told and "NOISE" not in told


def test_a_check_that_the_purse_stopped_is_no_baseline(anchors, tmp_path):
    usage = {"usage": {"prompt_tokens": 3000, "completion_tokens": 100}}  # 0.0085 a call
    whole = marking(anchors)
    with scripted(lambda request: completion(whole(request)) | usage) as server:
        stopped = check(Judge(StructuredChat("m", server.url), purse=Purse(2.5, 10.0, 0.15)), folder=tmp_path)
        assert "stopped, the next call might pass --max-cost; this check is not kept" in stopped
        assert 0 < int(re.search(r"m: (\d+) of 30", stopped)[1]) < 30
        assert "first check of this judge" in check(Judge(StructuredChat("m", server.url)), folder=tmp_path)


def test_a_check_that_marked_all_is_the_baseline(anchors, tmp_path):
    broken = [True]
    whole = marking(anchors)

    def answer(request):
        return "no verdict" if broken[0] and block(request, "ANSWER") in few else whole(request)

    few = {neutralise(anchor.item.blocks["answer"]) for anchor in anchors[3:]}
    with scripted(answer) as server:
        judge = Judge(StructuredChat("m", server.url))
        assert "3 of 30" in check(judge, folder=tmp_path)
        broken[0] = False
        assert "too few to tell from noise" in check(judge, folder=tmp_path)  # only the few are there to compare
        assert "30 answers" in check(judge, folder=tmp_path)


def test_the_command_keeps_its_series(anchors):
    with scripted(lambda r: verdict(3) if answer_first(r) else verdict(4)) as server:
        ask = ["judge", "--check", "--judge", "drifter", "--base-url", server.url]
        first, second = h2htalk(*ask), h2htalk(*ask)
    assert "first check of this judge" in first.stdout, first.stderr
    assert "moved by +0.00" in second.stdout and "rho undefined" in second.stdout
    assert len(server.asked) == 120  # no cache stands between
