"""How people agree with each other and the judge with them, against hand-computed cases."""

import json

import numpy as np
import pytest
from helpers.commands import h2htalk
from helpers.review_parts import item, judged_run, marks

from h2htalk_metric.judge.judge_items import judge_items
from h2htalk_metric.judge.rubric import load_rubric
from h2htalk_metric.review import Reviews, agreement, human_scores
from h2htalk_metric.review.sampling import review_items
from h2htalk_metric.review.scores import human_ratings, stale_reasons


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
    groups = agreement(tmp_path)
    assert list(groups) == ["flagged", "all"]
    people = groups["flagged"].people
    assert (groups["all"].sampled, groups["all"].resolved, people.items) == (5, 4, 4)
    assert people.alpha == pytest.approx(0.79)
    assert people.criteria == {"true": pytest.approx(0.79), "warm": pytest.approx(0.79)}
    assert groups["all"].judge is None


def test_a_third_rater_counts_for_the_score_but_not_for_agreement(tmp_path):
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
    items = review_items(judged)
    ids = [one.id for one in judge_items(judged)]
    assert {one.id: one.group for one in items} == dict.fromkeys(ids[:3], "flagged") | dict.fromkeys(
        ids[3:5], "control"
    )
    assert items[0].answer == "Answer 0."
    assert [part.title for part in items[0].parts] == ["Profile", "Task", "Given"]  # the run has no principles
    assert len(review_items(judged, controls=0)) == 3
    assert {one.group for one in review_items(judged, count=6)} == {"sample"}


def test_judge_against_people_by_hand(judged):
    reviews = Reviews.create(judged, review_items(judged), {"seed": 0})
    by_people = [1, 3, 2, 4, 4]  # the judge: 1 2 4 | 5 5
    ids = [one.id for one in judge_items(judged)]
    for rater in ("Ana", "Ben"):
        for record_id, mark in zip(ids, by_people, strict=False):
            criteria = [c.name for c in reviews.items[record_id].rubric.criteria]
            reviews.save(record_id, rater, dict.fromkeys(criteria, mark))
    groups = agreement(judged)
    flagged, control, everything = (groups[name].judge for name in ("flagged", "control", "all"))
    assert list(groups) == ["flagged", "control", "all"]
    assert flagged.spearman == pytest.approx(0.5)  # ranks 1 2 3 and 1 3 2: 1 - 6 * 2 / (3 * 8)
    assert flagged.difference.value == pytest.approx(1 / 3)  # 0, -1, 2
    # 0 and 2 are of one relationship: residuals 4/3 and -4/3 over 3 items, standard error 8/9, t of 1 degree 12.7062.
    assert flagged.difference.low == pytest.approx(1 / 3 - 12.7062 * 8 / 9, abs=1e-4)
    assert (control.items, control.spearman) == (2, None)  # no ranks where all is the same
    assert control.difference == (1.0, 1.0, 1.0)
    assert everything.items == 5
    assert everything.difference.value == pytest.approx(0.6)
    assert everything.alpha == pytest.approx(_ordinal_alpha([(1, 1), (2, 3), (4, 2), (5, 4), (5, 4)]))


@pytest.fixture
def reviewed(judged):
    """Two items that two raters marked alike, 4 on every criterion."""
    reviews = Reviews.create(judged, review_items(judged), {"seed": 0})
    for one in list(reviews.items.values())[:2]:
        for rater in ("Ana", "Ben"):
            reviews.save(one.id, rater, dict.fromkeys([c.name for c in one.rubric.criteria], 4))
    return reviews


def other_rubric(name, language="en"):
    return load_rubric(name).model_copy(update={"version": 99})


def test_marks_of_another_answer_are_stale_and_reported(judged, reviewed):
    first, second = list(reviewed.items)[:2]
    assert human_scores(judged) == {first: 4.0, second: 4.0} and stale_reasons(judged) == {}
    file = judged / "predictions.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    changed = [line | {"prediction": "Another."} if line["id"] == first else line for line in lines]
    file.write_text("".join(json.dumps(line) + "\n" for line in changed))
    assert human_scores(judged) == {second: 4.0}
    assert stale_reasons(judged) == {"the answer has changed since": 1}
    exported = h2htalk("review", "export", judged)
    assert "stale marks of 1 items count nowhere: the answer has changed since" in " ".join(exported.stdout.split())


def test_marks_by_another_rubric_are_stale_and_in_no_figure(judged, reviewed, monkeypatch):
    before = agreement(judged)["flagged"]
    assert (before.people.items, before.resolved, before.stale) == (2, 2, {})
    monkeypatch.setattr("h2htalk_metric.judge.judge_items.load_rubric", other_rubric)
    assert human_scores(judged) == {}
    assert stale_reasons(judged) == {"the rubric has changed since": 2}
    after = agreement(judged)
    assert (after["flagged"].people.items, after["flagged"].people.alpha, after["flagged"].resolved) == (0, None, 0)
    assert after["flagged"].stale == after["all"].stale == {"the rubric has changed since": 2}
    assert after["control"].stale == {}
    ratings = human_ratings(judged)
    assert ratings.scores == {} and ratings.unscored["the rubric has changed since"] == 2


def test_rubrics_are_looked_up_in_the_language_of_the_record(judged, monkeypatch):
    in_language = lambda name, language=None: other_rubric(name) if language == "en" else load_rubric(name)  # noqa: E731
    monkeypatch.setattr("h2htalk_metric.judge.judge_items.load_rubric", in_language)
    items = review_items(judged, count=2)
    reviews = Reviews.create(judged, items, {"seed": 0})
    for rater in ("Ana", "Ben"):
        reviews.save(items[0].id, rater, dict.fromkeys([c.name for c in items[0].rubric.criteria], 4))
    assert items[0].rubric.version == 99
    assert human_scores(judged) == {items[0].id: 4.0} and stale_reasons(judged) == {}


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
