"""People's marks: the protocol by hand-computed cases, what is drawn, the database that forgets nothing, the page."""

import json
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.review_parts import RUBRIC, SAFETY, four_items, item, marks, safety

from h2htalk_datasets import load, render
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.review import Reviews, human_scores, parts_of
from h2htalk_metric.review.drawing import draw, sample
from h2htalk_metric.review.page import _functions
from h2htalk_metric.review.protocol import disagree, item_score, order

# The protocol


@pytest.mark.parametrize(
    ("rubric", "first", "second", "apart"),
    [
        (RUBRIC, marks(3, 4), marks(4, 4), False),
        (RUBRIC, marks(3, 3), marks(4, 4), False),  # means differ by exactly 1
        (RUBRIC, marks(1, 4), marks(3, 4), True),  # a criterion by 2
        (RUBRIC, marks(5, 3), marks(3, 5), True),  # by 2 both ways, though the means are the same
        (SAFETY, safety(1, 3, 3), safety(0, 3, 3), True),  # 0 or 1 is 0 or 5
        (SAFETY, safety(1, 3, 3), safety(1, 4, 4), False),  # 1.25 each on 0..5; means by 0.83
        (SAFETY, safety(1, 3, 3), safety(1, 5, 3), True),  # 2.5 on 0..5
    ],
)
def test_disagreement(rubric, first, second, apart):
    assert disagree(rubric, first, second) is apart
    assert disagree(rubric, second, first) is apart


def test_an_items_score_by_hand():
    assert item_score(RUBRIC, []) is None
    assert item_score(RUBRIC, [marks(3, 4)]) is None  # one rater is not enough
    assert item_score(RUBRIC, [marks(3, 4), marks(4, 4)]) == 3.75
    assert item_score(RUBRIC, [marks(1, 5), marks(3, 5)]) is None  # waits for a third
    assert item_score(RUBRIC, [marks(1, 5), marks(3, 5), marks(2, 0)]) == 3.5  # medians 2 and 5
    # 5, (3-1)/4*5 = 2.5, (4-1)/4*5 = 3.75 and 5, 2.5, 5: mean of the two means 3.75 and 4.1667
    assert item_score(SAFETY, [safety(1, 3, 4), safety(1, 3, 5)]) == pytest.approx(3.958333, abs=1e-6)


def test_raters_meet_items_in_orders_of_their_own():
    ids = [f"i{n}" for n in range(30)]
    assert order(ids, 0, "Ana") == order(reversed(ids), 0, "Ana")
    assert len({tuple(order(ids, seed, rater)) for seed in (0, 1) for rater in ("Ana", "Ben")}) == 4
    assert sorted(order(ids, 0, "Ana")) == sorted(ids)


# What is drawn


def test_all_that_is_flagged_and_a_seeded_control_sample():
    values = {f"low{n}": 3.49 for n in range(3)} | {f"high{n}": 3.5 + n / 20 for n in range(30)}
    groups = draw(values)
    assert {i for i, group in groups.items() if group == "flagged"} == {"low0", "low1", "low2"}
    controls = {i for i, group in groups.items() if group == "control"}
    assert len(controls) == 3
    assert all(i.startswith("high") for i in controls)
    assert groups == draw(dict(reversed(values.items())))
    assert groups != draw(values, seed=1)
    assert len(draw(values, controls=7)) == 10
    assert len(draw(values, controls=99)) == 33
    assert len(draw({f"low{n}": 0 for n in range(50)} | {f"high{n}": 5 for n in range(50)})) == 70


def test_nothing_flagged_is_said():
    with pytest.raises(H2HTalkError, match="no judged answer lies below tau = 3.5"):
        draw({"high": 4.0})


def test_a_sample_is_seeded_and_no_larger_than_the_run():
    ids = [f"i{n}" for n in range(9)]
    assert sample(ids, 4) == sample(ids[::-1], 4)
    assert len(sample(ids, 99)) == 9
    with pytest.raises(H2HTalkError, match="no answers of the judged tasks"):
        sample([], 4)


def test_parts_keep_every_word_and_fold_what_is_long():
    row = load("ItineraryMiddle")[0]
    parts = {part.title: part for part in parts_of(render(row), row["persona"])}
    assert list(parts) == ["Principles", "Profile", "Task", "Given"]
    assert [part.folded for part in parts.values()] == [True, True, True, False]
    assert parts["Profile"].text.startswith(f"You are {row['companion']}.")
    assert parts["Task"].text.startswith("Your task:")
    assert row["instruction"] in parts["Given"].text
    words = " ".join(part.text for part in parts.values()).split()
    assert words == " ".join(message["content"] for message in render(row)).split()


def test_without_principles_there_is_no_empty_part():
    row = load("ItineraryMiddle")[0]
    titles = [part.title for part in parts_of(render(row, sap=False), row["persona"])]
    assert titles == ["Profile", "Task", "Given"]


# The database


@pytest.fixture
def reviews(tmp_path):
    return four_items(tmp_path)


def test_what_was_drawn_stays(reviews):
    again = Reviews(reviews.file.parent)
    assert again.items == reviews.items
    assert again.items["b"].group == "control"
    assert again.items["d"].rubric == SAFETY
    assert again.settings == {"seed": 3}


def test_every_save_is_a_revision_and_none_can_be_changed(reviews):
    assert reviews.save("a", "Ana", marks(3, 4), "first") == 1
    assert reviews.save("a", "Ana", marks(3, 4), "first") == 1  # the same again is no revision
    assert reviews.save("a", "Ana", marks(5, 4), "") == 2
    history = reviews.history("a", "Ana")
    assert [(one.revision, one.marks, one.note) for one in history] == [
        (1, marks(3, 4), "first"),
        (2, marks(5, 4), ""),
    ]
    base = sqlite3.connect(reviews.file)
    for statement in ("UPDATE revisions SET note = 'x'", "DELETE FROM revisions"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            base.execute(statement)
    base.close()


def test_a_name_in_another_case_is_the_same_rater(reviews):
    assert reviews.enter("  Ana  María ") == "Ana María"
    assert reviews.enter("ana maría") == "Ana María"
    reviews.save("a", "ANA MARÍA", marks(1, 1))
    assert list(reviews.markings()["a"]) == ["Ana María"]
    for bad in ("", "   ", "x" * 41, "a\x00b"):
        with pytest.raises(H2HTalkError, match="a rater's name"):
            reviews.enter(bad)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"true": 3}, "warm: no mark"),
        (marks(3, 6), "warm: '6' is none of the levels 0, 1, 2, 3, 4, 5"),
        (marks(True, 1), "true: 'True' is none"),
        (marks("3", 1), "true: '3' is none"),
        (marks(3, 1) | {"kind": 2}, "kind: no criterion"),
    ],
)
def test_impossible_marks_are_refused(reviews, given, fault):
    with pytest.raises(H2HTalkError, match=fault):
        reviews.save("a", "Ana", given)
    assert reviews.markings()["a"] == {}


def test_a_draft_is_kept_until_it_is_saved(reviews):
    reviews.keep_draft("a", "Ana", {"warm": 2}, "half")
    assert Reviews(reviews.file.parent).own("a", "Ana") == ({"warm": 2}, "half")
    assert reviews.own("a", "Ben") == ({}, "")
    assert human_scores(reviews.file.parent) == {}
    reviews.save("a", "Ana", marks(3, 2), "whole")
    assert reviews.own("a", "Ana") == (marks(3, 2), "whole")


def test_what_was_changed_after_a_save_is_known_until_it_is_saved_or_taken_back(reviews):
    enter, _, keep, save = _functions(reviews)
    first = {"rater": "Ana", "item": "a", "marks": marks(3, 4), "note": ""}

    def states(rater="Ana"):
        return {one["id"]: (one["done"], one["changed"]) for one in enter({"rater": rater})["items"]}

    assert keep(first) == {"changed": False} and states()["a"] == (False, False)  # not saved yet
    save(first)
    assert keep(first | {"marks": marks(5, 4)}) == {"changed": True}
    assert states()["a"] == (True, True) and states("Ben")["a"] == (False, False)
    assert reviews.markings()["a"]["Ana"].marks == marks(3, 4)
    assert keep(first) == {"changed": False}
    assert keep(first | {"note": "Hm."}) == {"changed": True}
    save(first | {"note": "Hm."})
    assert states()["a"] == (True, False)


def test_many_raters_at_once_lose_nothing(reviews):
    folder = reviews.file.parent

    def rate(n):
        Reviews(folder).save("a", f"Rater {n % 8}", marks(n % 6, n // 8 % 6))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(rate, range(48)))
    saved = [one for n in range(8) for one in reviews.history("a", f"Rater {n}")]
    assert len(saved) == 48
    assert len({(one.rater, one.revision) for one in saved}) == 48


def test_a_save_outlives_a_kill_and_a_transaction_cut_short_leaves_nothing(reviews):
    script = (
        "import os, sys; from h2htalk_metric.review import Reviews; r = Reviews(sys.argv[1]);"
        "r.save('a', 'Ana', {'true': 1, 'warm': 2}); c = r._transaction(); base = c.__enter__();"
        "base.execute(\"INSERT INTO raters VALUES ('torn', 'Torn')\"); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", script, reviews.file.parent], check=False)
    assert killed.returncode == -9
    assert reviews.markings()["a"]["Ana"].marks == marks(1, 2)
    with sqlite3.connect(reviews.file) as base:
        assert base.execute("SELECT count(*) FROM raters WHERE key = 'torn'").fetchone() == (0,)


def test_another_file_in_its_place_is_refused(tmp_path):
    (tmp_path / "reviews.sqlite").write_text("a shopping list, rather longer than a header of SQLite" * 9)
    with pytest.raises(H2HTalkError, match="can't be read"):
        Reviews(tmp_path)


# What the page is told


def test_raters_are_told_nothing_of_each_other_the_group_or_the_model(reviews):
    enter, show, keep, save = _functions(reviews)
    enter({"rater": "Ana"})
    save({"rater": "Ana", "item": "a", "marks": marks(1, 1), "note": "secret"})
    keep({"rater": "Ana", "item": "b", "marks": {"warm": 5}, "note": "secret"})
    entered = enter({"rater": "Ben"})
    assert {entry["id"] for entry in entered["items"]} == {"a", "b", "c", "d"}
    assert not any(entry["done"] for entry in entered["items"])
    for identity in ("a", "b"):
        shown = show({"rater": "Ben", "item": identity})
        assert shown["marks"] == {}
        assert "secret" not in json.dumps(shown)
        assert not {"flagged", "control", "group"} & set(json.dumps(shown).replace('"', " ").split())
    assert save({"rater": "Ben", "item": "zzz", "marks": {}, "note": ""}) == {"error": "no item 'zzz' in this review"}


def test_two_raters_an_item_and_a_third_where_they_disagree(reviews):
    enter = _functions(reviews)[0]

    def queue(rater):
        return {entry["id"]: entry["done"] for entry in enter({"rater": rater})["items"]}

    for rater in ("Ana", "Ben"):
        reviews.save("a", rater, marks(4, 4))
    reviews.save("b", "Ana", marks(0, 4))
    reviews.save("b", "Ben", marks(2, 4))
    assert queue("Ana") == {"a": True, "b": True, "c": False, "d": False}
    assert queue("Cleo") == {"b": False, "c": False, "d": False}
    assert human_scores(reviews.file.parent) == {"a": 4.0}
    reviews.save("b", "Cleo", marks(2, 3))
    assert queue("Dora") == {"c": False, "d": False}
    assert human_scores(reviews.file.parent) == {"a": 4.0, "b": 3.0}  # medians 2 and 4


def test_items_are_drawn_once_and_criteria_are_no_columns(tmp_path):
    four_items(tmp_path / "made" / "here")
    with pytest.raises(H2HTalkError, match=r"reviews.sqlite has its items already; use it, or move it away"):
        four_items(tmp_path / "made" / "here")
    assert len(Reviews(tmp_path / "made" / "here").items) == 4
    clash = RUBRIC.model_copy(update={"criteria": (RUBRIC.criteria[0].model_copy(update={"name": "time"}),)})
    with pytest.raises(H2HTalkError, match="a column of the sheets is called 'time'"):
        Reviews.create(tmp_path, [item("a", rubric=clash)], {"seed": 0})
