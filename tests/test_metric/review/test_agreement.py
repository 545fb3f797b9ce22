"""How people agree with each other and the judge with them, against hand-computed cases."""

import json

import numpy as np
import pytest
from helpers.review_parts import item, judged_run, marks

from h2htalk_metric.judge.items import items_of
from h2htalk_metric.judge.rubric import load_rubric
from h2htalk_metric.review import Reviews, agreement, human_scores
from h2htalk_metric.review.agreement import agreement_lines
from h2htalk_metric.review.drawing import items_of_run


@pytest.fixture
def judged(tmp_path):
    return judged_run(tmp_path / "run")


def test_agreement_among_people_by_hand(tmp_path):
    """Pairs 1-1, 2-2, 3-3, 2-3 of means: ordinal alpha 1 - 56 * 2.25 / 600 = 0.79 (worked out after Krippendorff)."""
    reviews = Reviews.create(tmp_path, [item(name) for name in "abcde"], {"seed": 0})
    for name, (first, second) in zip("abcd", [(1, 1), (2, 2), (3, 3), (2, 3)], strict=True):
        reviews.save(name, "Ana", marks(first, first))
        reviews.save(name, "Ben", marks(second, second))
    reviews.save("e", "Ana", marks(0, 0))
    found = agreement(tmp_path)
    assert list(found) == ["flagged", "all"]
    people = found["flagged"].people
    assert (found["all"].drawn, found["all"].settled, people.items) == (5, 4, 4)
    assert people.alpha == pytest.approx(0.79)
    assert people.criteria == {"true": pytest.approx(0.79), "warm": pytest.approx(0.79)}
    assert found["all"].judge is None


def test_a_third_rater_counts_for_the_score_and_not_for_agreement(tmp_path):
    reviews = Reviews.create(tmp_path, [item("a"), item("b")], {"seed": 0})
    for rater, first, second in [("Ana", 1, 4), ("Ben", 1, 0), ("Cleo", 1, 4)]:
        reviews.save("a", rater, marks(first, first))
        reviews.save("b", rater, marks(second, second))
    assert human_scores(tmp_path) == {"a": 1.0, "b": 4.0}
    # Pairs 1-1 and 4-0: counts 1, 2, 1. Distances 0-1: 1.5**2, 1-4: 1.5**2, 0-4: 3**2. D_o 18/4, D_e 36/12.
    assert agreement(tmp_path)["all"].people.alpha == pytest.approx(-0.5)


def test_what_is_undefined_is_none(tmp_path):
    reviews = Reviews.create(tmp_path, [item("a")], {"seed": 0})
    assert agreement(tmp_path)["all"].people.alpha is None
    for rater in ("Ana", "Ben"):
        reviews.save("a", rater, marks(3, 3))
    assert agreement(tmp_path)["all"].people.alpha is None  # one value only
    reviews.save("a", "Ben", marks(4, 4))
    assert agreement(tmp_path)["all"].people.alpha is None  # one item only: nothing to agree on by chance
    assert human_scores(tmp_path / "nowhere") == {}


def test_items_of_a_judged_run(judged):
    """J = 0.6 * 2.5 + 0.4 * score = 1.9, 2.3, 3.1, 3.5, 3.5: three lie below 3.5, two do not, one has none."""
    items = items_of_run(judged)
    ids = [one.id for one in items_of(judged)]
    assert {one.id: one.group for one in items} == dict.fromkeys(ids[:3], "flagged") | dict.fromkeys(
        ids[3:5], "control"
    )
    assert items[0].answer == "Answer 0."
    assert [part.title for part in items[0].parts] == ["Profile", "Task", "Given"]  # the run has no principles
    assert len(items_of_run(judged, controls=0)) == 3
    assert {one.group for one in items_of_run(judged, count=6)} == {"sample"}


def test_judge_against_people_by_hand(judged):
    reviews = Reviews.create(judged, items_of_run(judged), {"seed": 0})
    by_people = [1, 3, 2, 4, 4]  # the judge said 1 2 4 | 5 5
    ids = [one.id for one in items_of(judged)]
    for rater in ("Ana", "Ben"):
        for identity, mark in zip(ids, by_people, strict=False):
            criteria = [c.name for c in reviews.items[identity].rubric.criteria]
            reviews.save(identity, rater, dict.fromkeys(criteria, mark))
    found = agreement(judged)
    flagged, control, everything = (found[name].judge for name in ("flagged", "control", "all"))
    assert list(found) == ["flagged", "control", "all"]
    assert flagged.spearman == pytest.approx(0.5)  # ranks 1 2 3 and 1 3 2: 1 - 6 * 2 / (3 * 8)
    assert flagged.difference.value == pytest.approx(1 / 3)  # 0, -1, 2
    assert -1 <= flagged.difference.low < 1 / 3 < flagged.difference.high <= 2
    assert (control.items, control.spearman) == (2, None)  # no ranks where all is the same
    assert control.difference == (1.0, 1.0, 1.0)
    assert everything.items == 5
    assert everything.difference.value == pytest.approx(0.6)
    lines = agreement_lines(found)
    assert "| control | 2 | 2 | 2 | - | 2 | " in "\n".join(lines)
    assert "| +1.00 (+1.00 to +1.00) |" in "\n".join(lines)
    assert everything.alpha == pytest.approx(_ordinal_alpha([(1, 1), (2, 3), (4, 2), (5, 4), (5, 4)]))


def test_marks_of_an_answer_that_was_given_anew_do_not_count(judged):
    reviews = Reviews.create(judged, items_of_run(judged), {"seed": 0})
    first, second = list(reviews.items)[:2]
    for identity in (first, second):
        for rater in ("Ana", "Ben"):
            reviews.save(identity, rater, dict.fromkeys([c.name for c in reviews.items[identity].rubric.criteria], 4))
    assert human_scores(judged) == {first: 4.0, second: 4.0}
    file = judged / "predictions.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    changed = [line | {"prediction": "Another."} if line["id"] == first else line for line in lines]
    file.write_text("".join(json.dumps(line) + "\n" for line in changed))
    assert human_scores(judged) == {second: 4.0}
    other = load_rubric(reviews.items[second].task).model_copy(update={"version": 99})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("h2htalk_metric.review.scores.load_rubric", lambda _: other)
        assert human_scores(judged) == {}  # nor marks by a rubric that has changed


def _ordinal_alpha(pairs):
    """Written from Krippendorff's definition, for two raters without gaps; nothing of the package or the library."""
    values = np.array(sorted(v for pair in pairs for v in pair))
    n = len(values)

    def distance(c, k):
        low, high = min(c, k), max(c, k)
        between = np.sum((values >= low) & (values <= high))
        return (between - (np.sum(values == low) + np.sum(values == high)) / 2) ** 2 if low != high else 0.0

    observed = sum(2 * distance(*pair) for pair in pairs) / n
    expected = sum(distance(c, k) for c in values for k in values) / (n * (n - 1))
    return 1 - observed / expected
