"""People's marks: the protocol by hand-computed cases, sampling, the file that loses nothing, the page."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.review_parts import RUBRIC, SAFETY, four_items, item, marks, safety

from h2htalk_datasets import load, render
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.review import Reviews, human_scores, parts_of
from h2htalk_metric.review.protocol import disagree, item_score, order
from h2htalk_metric.review.rating_page import server_functions
from h2htalk_metric.review.sampling import sample_items

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


# Sampling


def test_a_sample_is_seeded_and_no_larger_than_the_run():
    ids = [f"i{n}" for n in range(9)]
    assert sample_items(ids, 4) == sample_items(ids[::-1], 4)
    assert len(sample_items(ids, 99)) == 9
    assert {choice.probability for choice in sample_items(ids, 4).values()} == {4 / 9}


def test_parts_keep_every_word_and_fold_long_ones():
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


# The file


@pytest.fixture
def reviews(tmp_path):
    return four_items(tmp_path)


def test_the_items_stay_as_sampled(reviews):
    again = Reviews(reviews.file.parent)
    assert again.items == reviews.items
    assert again.items["b"].group == "control"
    assert again.items["d"].rubric == SAFETY
    assert again.settings == {"seed": 3}


def test_every_save_is_a_line_and_none_is_changed(reviews):
    assert reviews.save("a", "Ana", marks(3, 4), "first") == 1
    assert reviews.save("a", "Ana", marks(3, 4), "first") == 1  # the same again is no revision
    assert reviews.save("a", "Ana", marks(5, 4), "") == 2
    history = reviews.history("a", "Ana")
    assert [(one.revision, one.marks, one.comment) for one in history] == [
        (1, marks(3, 4), "first"),
        (2, marks(5, 4), ""),
    ]
    lines = [json.loads(line) for line in reviews.file.read_text().splitlines()]
    assert [(line["rater"], line["item"], line["revision"]) for line in lines[1:]] == [("Ana", "a", 1), ("Ana", "a", 2)]


def test_a_name_in_another_case_is_the_same_rater(reviews):
    assert reviews.rater_name("  Ana  María ") == "Ana María"
    reviews.save("a", "Ana María", marks(1, 1))
    assert reviews.rater_name("ana maría") == "Ana María"
    reviews.save("a", "ANA MARÍA", marks(2, 1))
    assert {name: review.revision for name, review in reviews.latest()["a"].items()} == {"Ana María": 2}
    for bad in ("", "   ", "x" * 41, "a\x00b"):
        with pytest.raises(H2HTalkError, match="a rater's name"):
            reviews.rater_name(bad)


@pytest.mark.parametrize(
    ("impossible", "message"),
    [
        ({"true": 3}, "warm: no mark"),
        (marks(3, 6), "warm: '6' is not one of the levels 0, 1, 2, 3, 4, 5"),
        (marks(True, 1), "true: 'True' is not one"),
        (marks("3", 1), "true: '3' is not one"),
        (marks(3, 1) | {"kind": 2}, "kind: not a criterion"),
    ],
)
def test_impossible_marks_are_refused(reviews, impossible, message):
    with pytest.raises(H2HTalkError, match=message):
        reviews.save("a", "Ana", impossible)
    assert reviews.latest()["a"] == {}


def test_a_draft_stays_until_it_is_saved(reviews):
    reviews.save_draft("a", "Ana", {"warm": 2}, "half")
    assert Reviews(reviews.file.parent).current("a", "Ana") == ({"warm": 2}, "half")
    assert reviews.current("a", "Ben") == ({}, "")
    assert human_scores(reviews.file.parent) == {}
    reviews.save("a", "Ana", marks(3, 2), "complete")
    assert reviews.current("a", "Ana") == (marks(3, 2), "complete")


def test_changes_after_a_save_are_shown_until_they_are_saved_or_undone(reviews):
    enter, _, keep, save = server_functions(reviews)
    first = {"rater": "Ana", "item": "a", "marks": marks(3, 4), "comment": ""}

    def states(rater="Ana"):
        return {one["id"]: (one["done"], one["changed"]) for one in enter({"rater": rater})["items"]}

    assert keep(first) == {"changed": False} and states()["a"] == (False, False)  # not saved yet
    save(first)
    assert keep(first | {"marks": marks(5, 4)}) == {"changed": True}
    assert states()["a"] == (True, True) and states("Ben")["a"] == (False, False)
    assert reviews.latest()["a"]["Ana"].marks == marks(3, 4)
    assert keep(first) == {"changed": False}
    assert keep(first | {"comment": "Hm."}) == {"changed": True}
    save(first | {"comment": "Hm."})
    assert states()["a"] == (True, False)


def test_many_raters_at_once_lose_nothing(reviews):
    """Eight threads save at the same time, half of them through one shared object."""
    folder = reviews.file.parent

    def rate(n):
        (reviews if n % 2 else Reviews(folder)).save("a", f"Rater {n % 8}", marks(n % 6, n // 8 % 6))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(rate, range(48)))
    saved = [one for n in range(8) for one in reviews.history("a", f"Rater {n}")]
    assert len(saved) == 48
    assert len({(one.rater, one.revision) for one in saved}) == 48


def test_two_processes_lose_nothing_and_see_each_other(reviews):
    program = (
        "import sys; from h2htalk_metric.review import Reviews; r = Reviews(sys.argv[1]);"
        "[r.save('a', 'Ana', {'true': n % 6, 'warm': n // 6}) for n in range(36)]"
    )
    command = [sys.executable, "-c", program, str(reviews.file.parent)]
    processes = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait(120) for process in processes] == [0, 0]
    history = reviews.history("a", "Ana")
    assert [one.revision for one in history] == list(range(1, len(history) + 1))
    assert {tuple(one.marks.values()) for one in history} == {(n % 6, n // 6) for n in range(36)}


def test_a_save_survives_a_kill(reviews):
    program = (
        "import sys, time; from h2htalk_metric.review import Reviews;"
        "Reviews(sys.argv[1]).save('a', 'Ana', {'true': 1, 'warm': 2}); print('saved', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", program, reviews.file.parent], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"saved\n"
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert reviews.latest()["a"]["Ana"].marks == marks(1, 2)


def test_a_save_that_was_killed_halfway_is_lost_alone(reviews):
    reviews.save("a", "Ana", marks(1, 2))
    complete = reviews.file.read_bytes()
    line = complete.splitlines(keepends=True)[-1]
    for cut in (1, len(line) // 2, len(line) - 1):
        reviews.file.write_bytes(complete + line.replace(b"Ana", b"Ben")[:cut])
        again = Reviews(reviews.file.parent)
        assert set(again.latest()["a"]) == {"Ana"}
        again.save("a", "Cleo", marks(3, 4))
        names = set(Reviews(reviews.file.parent).latest()["a"])
        assert {"Ana", "Cleo"} <= names and names == set(again.latest()["a"])


def test_a_file_that_was_moved_away_is_one_line(reviews):
    reviews.file.rename(reviews.file.with_name("elsewhere.jsonl"))
    with pytest.raises(H2HTalkError, match="cannot read .*reviews.jsonl: No such file"):
        reviews.save("a", "Ana", marks(1, 1))


@pytest.mark.parametrize("content", ["a shopping list\n", "{}\n", "", '{"format": 1, "settings": {}}\n'])
def test_another_file_in_its_place_is_refused(tmp_path, content):
    (tmp_path / "reviews.jsonl").write_text(content)
    with pytest.raises(H2HTalkError, match="is damaged; restore it or move it away"):
        Reviews(tmp_path)


def test_a_file_of_another_version_is_refused(reviews):
    header, *_ = reviews.file.read_text().splitlines()
    reviews.file.write_text(json.dumps(json.loads(header) | {"format": 3}) + "\n")
    with pytest.raises(H2HTalkError, match="another version"):
        Reviews(reviews.file.parent)


# Reviews of earlier versions


OLD_SCHEMA = """
CREATE TABLE settings (body TEXT NOT NULL);
CREATE TABLE rubrics (hash TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE items (
    id TEXT PRIMARY KEY, task TEXT NOT NULL, parts TEXT NOT NULL, reference TEXT NOT NULL, answer TEXT NOT NULL,
    rubric TEXT NOT NULL REFERENCES rubrics, kind TEXT NOT NULL
);
CREATE TABLE raters (key TEXT PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE revisions (
    number INTEGER PRIMARY KEY AUTOINCREMENT, item TEXT NOT NULL, rater TEXT NOT NULL, revision INTEGER NOT NULL,
    marks TEXT NOT NULL, note TEXT NOT NULL, time TEXT NOT NULL, source TEXT NOT NULL
);
CREATE TABLE drafts (item TEXT NOT NULL, rater TEXT NOT NULL, marks TEXT NOT NULL, note TEXT NOT NULL);
PRAGMA user_version=1;
"""


def old_database(folder, items):
    """``reviews.sqlite`` as earlier versions wrote it: two revisions by Ana, one by Ben, and a draft."""
    time = "2025-01-01T00:00:00+00:00"
    with sqlite3.connect(folder / "reviews.sqlite") as database:
        database.executescript(OLD_SCHEMA)
        database.execute("INSERT INTO settings VALUES (?)", [json.dumps({"seed": 3, "controls": None})])
        rubrics = {one.rubric.hash: one.rubric.model_dump_json() for one in items}
        database.executemany("INSERT INTO rubrics VALUES (?, ?)", rubrics.items())
        rows = [(i.id, i.task, json.dumps(i.parts), i.reference, i.answer, i.rubric.hash, i.group) for i in items]
        database.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        database.executemany("INSERT INTO raters VALUES (?, ?)", [("ana", "Ana"), ("ben", "Ben")])
        revisions = [
            ("a", "ana", 1, json.dumps(marks(1, 2)), "first", time, "page"),
            ("a", "ben", 1, json.dumps(marks(4, 4)), "", time, "import"),
            ("a", "ana", 2, json.dumps(marks(4, 4)), "", time, "page"),
        ]
        columns = "item, rater, revision, marks, note, time, source"
        database.executemany(f"INSERT INTO revisions ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", revisions)
        database.execute("INSERT INTO drafts VALUES ('b', 'ben', ?, 'half')", [json.dumps({"warm": 2})])
    database.close()


def test_reviews_of_an_earlier_version_are_converted(tmp_path):
    items = [item("a"), item("b", "control"), item("d", rubric=SAFETY)]
    old_database(tmp_path, items)
    assert Reviews.exist(tmp_path)
    reviews = Reviews(tmp_path)
    assert list(reviews.items.values()) == items and reviews.settings["seed"] == 3
    assert [(one.revision, one.marks, one.comment) for one in reviews.history("a", "ana")] == [
        (1, marks(1, 2), "first"),
        (2, marks(4, 4), ""),
    ]
    assert reviews.latest()["a"]["Ben"].source == "import"
    assert reviews.current("b", "Ben") == ({"warm": 2}, "half")
    assert human_scores(tmp_path) == {"a": 4.0}
    assert reviews.save("a", "Ben", marks(5, 4)) == 2
    assert (tmp_path / "reviews.sqlite.converted").exists() and not (tmp_path / "reviews.sqlite").exists()


def test_a_database_that_cannot_be_converted_is_one_line(tmp_path):
    (tmp_path / "reviews.sqlite").write_text("a shopping list, rather longer than a header of SQLite" * 9)
    with pytest.raises(H2HTalkError, match="reviews.sqlite cannot be read .*; restore it or move it away"):
        Reviews(tmp_path)
    with pytest.raises(H2HTalkError, match="has no reviews yet"):
        Reviews(tmp_path / "elsewhere")


# What the page shows


def test_raters_see_nothing_of_each_other_the_group_or_the_model(reviews):
    enter, show, keep, save = server_functions(reviews)
    enter({"rater": "Ana"})
    save({"rater": "Ana", "item": "a", "marks": marks(1, 1), "comment": "secret"})
    keep({"rater": "Ana", "item": "b", "marks": {"warm": 5}, "comment": "secret"})
    entered = enter({"rater": "Ben"})
    assert {entry["id"] for entry in entered["items"]} == {"a", "b", "c", "d"}
    assert not any(entry["done"] for entry in entered["items"])
    for identity in ("a", "b"):
        shown = show({"rater": "Ben", "item": identity})
        assert shown["marks"] == {}
        assert "secret" not in json.dumps(shown)
        assert not {"flagged", "control", "group"} & set(json.dumps(shown).replace('"', " ").split())
    assert save({"rater": "Ben", "item": "zzz", "marks": {}, "comment": ""}) == {
        "error": "no item 'zzz' in this review"
    }


def test_two_raters_per_item_and_a_third_if_they_disagree(reviews):
    enter = server_functions(reviews)[0]

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


def test_items_are_sampled_once_and_no_criterion_has_the_name_of_a_column(tmp_path):
    four_items(tmp_path / "made" / "here")
    with pytest.raises(H2HTalkError, match=r"reviews.jsonl has its items already; use it, or move it away"):
        four_items(tmp_path / "made" / "here")
    assert len(Reviews(tmp_path / "made" / "here").items) == 4
    clash = RUBRIC.model_copy(update={"criteria": (RUBRIC.criteria[0].model_copy(update={"name": "time"}),)})
    with pytest.raises(H2HTalkError, match="a column of the sheets is called 'time'"):
        Reviews.create(tmp_path, [item("a", rubric=clash)], {"seed": 0})
