"""People's marks: the protocol by hand-computed cases, the database that forgets nothing, the sheet, the agreement."""

import csv
import json
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from conftest import h2htalk
from judging import make_run
from reviewing import RUBRIC, SAFETY, item

from h2htalk_datasets import load, render
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.judge.items import items_of
from h2htalk_metric.judge.marking import item_key
from h2htalk_metric.judge.run_judgements import Panel
from h2htalk_metric.review import Reviews, agreement, human_scores, parts_of
from h2htalk_metric.review.agreement import agreement_lines
from h2htalk_metric.review.drawing import draw, items_of_run, sample
from h2htalk_metric.review.page import _functions
from h2htalk_metric.review.protocol import disagree, item_score, order
from h2htalk_metric.review.sheet import export_blank, export_reviews, import_reviews, plain, safe


def marks(true, warm):
    return {"true": true, "warm": warm}


def safety(safe_, care, plain_):
    return {"safe": safe_, "care": care, "plain": plain_}


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
    items = [item("a"), item("b", "control"), item("c", answer="=1+1"), item("d", rubric=SAFETY)]
    return Reviews.create(tmp_path, items, {"seed": 3})


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


# The sheet


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        "\rx",
        "\n=1",
        "  =1",
        "＝1",
        "'=1",
        "''=1",
        "'",
        "plain",
        "",
        "a=b",
        "'tis",
    ],
)
def test_cells_are_no_formulas_and_come_back_whole(text):
    assert plain(safe(text)) == text
    assert safe(text).lstrip(" ")[:1] not in set("=+-@\t\r\n＝＋－＠") or not text


def test_reviews_as_csv_hold_one_row_an_item_and_rater(reviews):
    reviews.save("c", "=Ana", marks(3, 4), '=HYPERLINK("http://x";"y")')
    reviews.save("c", "=Ana", marks(2, 4), "-2, oder mehr\nÜber alles")
    reviews.save("d", "Ben", safety(1, 5, 4))
    file = export_reviews(reviews.file.parent)
    assert file.read_bytes().startswith(b"\xef\xbb\xbf")
    rows = pd.read_csv(file, dtype=str, keep_default_na=False).to_dict("records")
    head = ["id", "task", "rater", "rubric", "true", "warm", "safe", "care", "plain", "note", "revision", "time"]
    assert list(rows[0]) == head
    assert [rows[0][name] for name in head[:-1]] == [
        "c", "Small", "'=Ana", RUBRIC.hash, "2", "4", "", "", "", "'-2, oder mehr\nÜber alles", "2",
    ]  # fmt: skip
    assert [rows[1][name] for name in head[:-1]] == [
        "d", "Safety", "Ben", SAFETY.hash, "", "", "1", "5", "4", "", "1",
    ]  # fmt: skip


def fill(sheet, out, rater, by_id, delimiter=","):
    with sheet.open(encoding="utf-8-sig", newline="") as source:
        rows = [row | by_id.get(row["id"], {}) | {"rater": rater} for row in csv.DictReader(source)]
    with out.open("w", encoding="utf-8", newline="") as target:
        writer = csv.DictWriter(target, rows[0].keys(), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return out


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_blank_sheet_goes_out_and_comes_back_filled(reviews, tmp_path, delimiter):
    folder = reviews.file.parent
    reviews.save("a", "Ana", marks(3, 4), "not for others")
    sheet, rubrics = export_blank(folder)
    text = sheet.read_text("utf-8-sig")
    assert "not for others" not in text
    assert "flagged" not in text
    assert "'=1+1" in text
    assert "5  Level 5." in rubrics.read_text()
    given = {"a": {"true": "2", "warm": "5.0"}, "d": {"safe": "1", "care": " 3", "plain": "4", "note": "'=x"}}
    filled = fill(sheet, tmp_path / "filled.csv", "Ben", given, delimiter)
    assert import_reviews(folder, filled) == (2, 0)
    assert import_reviews(folder, filled) == (0, 2)
    found = reviews.markings()
    assert found["a"]["Ben"].marks == marks(2, 5)
    assert found["d"]["Ben"].marks == safety(1, 3, 4)
    assert (found["d"]["Ben"].note, found["d"]["Ben"].source) == ("=x", "import")
    reviews.save("a", "Ben", marks(3, 5))  # a correction on the page is not undone by the same file
    assert import_reviews(folder, filled) == (0, 2)
    assert reviews.markings()["a"]["Ben"].marks == marks(3, 5)


def test_of_two_sheets_the_one_imported_last_counts(reviews, tmp_path):
    folder = reviews.file.parent
    sheet, _ = export_blank(folder)
    first, second = (
        fill(sheet, tmp_path / f"{mark}.csv", "Ben", {"a": {"true": mark, "warm": "5"}}) for mark in ("2", "3")
    )
    for file, mark in ((first, 2), (second, 3), (first, 2)):
        assert import_reviews(folder, file) == (1, 0)
        assert reviews.markings()["a"]["Ben"].marks == marks(mark, 5)
    assert import_reviews(folder, first) == (0, 1)


def test_a_rater_marks_an_item_once_in_a_sheet(reviews, tmp_path):
    file = tmp_path / "twice.csv"
    rows = [f"a,Ana,{RUBRIC.hash},3,4", f"b,Ana,{RUBRIC.hash},3,4", f"a,ANA,{RUBRIC.hash},5,5"]
    file.write_text("\n".join(["id,rater,rubric,true,warm,safe,care,plain", *(f"{row},,," for row in rows)]))
    with pytest.raises(H2HTalkError, match="row 4: ANA's marks of a stand in row 2 already"):
        import_reviews(reviews.file.parent, file)
    assert reviews.markings()["b"] == {}


def test_options_of_a_draw_are_refused_where_items_were_not_drawn_from_a_run(reviews):
    from h2htalk_metric.review_command import _reviews

    with pytest.raises(H2HTalkError, match="drawn already .--controls None -> 5"):
        _reviews(reviews.file.parent, {"controls": 5, "sample": None, "seed": None})


def test_reviews_of_one_copy_go_into_another(reviews, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    twin = Reviews.create(other, reviews.items.values(), {"seed": 3})
    reviews.save("a", "=Ana", marks(3, 4), "\t-1")
    twin.save("a", "Ben", marks(3, 3))
    assert import_reviews(other, export_reviews(reviews.file.parent)) == (1, 0)
    assert {name: m.marks for name, m in twin.markings()["a"].items()} == {"Ben": marks(3, 3), "=Ana": marks(3, 4)}
    assert twin.markings()["a"]["=Ana"].note == "-1"


def test_each_fault_of_a_file_is_named_by_its_row_and_nothing_is_taken(reviews, tmp_path):
    h, s = RUBRIC.hash, SAFETY.hash
    file = tmp_path / "faulty.csv"
    file.write_text(
        "id,rater,rubric,true,warm,safe,care,plain\n"
        f"a,Ana,{h},3,4,,,\n"
        f"zzz,Ana,{h},3,4,,,\n"
        f"b,Ana,{s},3,4,,,\n"
        f"b,Ana,{h},3,,,,\n"
        f"b,Ana,{h},3,7,,,\n"
        f"b,,{h},3,4,,,\n"
        f"c,Ana,{h},good,4,,,\n"
        f"c,Ana,{h},3,4,1,,\n"
        f"c,Ana,{h},,,,,\n"
    )
    with pytest.raises(H2HTalkError) as error:
        import_reviews(reviews.file.parent, file)
    told = str(error.value).splitlines()[1:]
    assert [line.split(":")[0].strip() for line in told] == [f"row {n}" for n in range(3, 10)]
    for line, part in zip(
        told,
        ["no item 'zzz'", s, "warm: no mark", "'7' is none", "rater's name", "'good' is none", "safe: no criterion"],
        strict=True,
    ):
        assert part in line
    assert reviews.markings()["a"] == {}
    file.write_text("id,rater\na,Ana\n")
    with pytest.raises(H2HTalkError, match="has no column rubric, true, warm"):
        import_reviews(reviews.file.parent, file)


# Agreement


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


@pytest.fixture
def judged(tmp_path):
    """A run of two records a judged task, S = 0.5, and a judge whose scores are 1 to 5 and one failure."""
    folder = tmp_path / "run"
    records = make_run(folder)
    signature = {"embedder": "by hand"}
    composites = pd.DataFrame({"id": [r["id"] for r in records], "task": [r["task"] for r in records]})
    composites.assign(composite=0.5).to_parquet(folder / "scores.parquet")
    (folder / "score.json").write_text(json.dumps({"signature": signature}))
    Panel(("model",)).write(folder)
    lines = []
    for asked, score in zip(items_of(folder), [1, 2, 4, 5, 5, None], strict=True):
        line = {"id": asked.id, "judge": "model", "key": item_key(asked, "model", 0, 0), "rubric": asked.rubric.name}
        said = {"unscored": "no"} if score is None else {"score": score, "verdict": {}, "position_gap": 0, "why": {}}
        lines.append(json.dumps(line | said))
    (folder / "judgements.jsonl").write_text("\n".join(lines) + "\n")
    return folder


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


# The command


def test_export_and_import_on_the_command_line(judged):
    from h2htalk_metric.review_command import _reviews

    reviews = _reviews(judged, {"controls": None, "sample": None, "seed": None})
    assert len(reviews.items) == 5
    assert _reviews(judged, {"controls": None, "sample": None, "seed": 0}).items == reviews.items
    for asked in ({"controls": 1, "sample": None, "seed": None}, {"controls": None, "sample": None, "seed": 5}):
        with pytest.raises(H2HTalkError, match="are drawn already"):
            _reviews(judged, asked)
    blank = h2htalk("review", "export", judged, "--blank")
    assert blank.returncode == 0, blank.stderr
    criteria = dict.fromkeys(["well_paced", "true_to_persona", "grounded", "vivid", "keeps_form"], "4")
    filled = fill(judged / "review-sheet.csv", judged / "filled.csv", "Ana", dict.fromkeys(reviews.items, criteria))
    imported = h2htalk("review", "import", judged, filled)
    assert "5 added, 0 were there already" in imported.stdout, imported.stderr
    exported = h2htalk("review", "export", judged)
    assert exported.returncode == 0, exported.stderr
    assert "flagged" in exported.stdout
    assert len(pd.read_csv(judged / "reviews.csv")) == 5


def test_wrong_input_is_one_line(judged, tmp_path):
    for arguments, complaint in [
        (["review", "nowhere"], "nowhere is no run folder"),
        (["review", "export", judged], "has no reviews yet; run: h2htalk review"),
        (["review", "import", judged, "none.csv"], "has no reviews yet"),
    ]:
        refused = h2htalk(*arguments, cwd=tmp_path)
        assert refused.returncode == 2
        assert complaint in refused.stderr
        assert "Traceback" not in refused.stderr
    (judged / "judge.json").unlink()
    refused = h2htalk("review", judged)
    assert (refused.returncode, "has no judgements" in refused.stderr) == (2, True)
    helped = h2htalk("review", "--help")
    assert all(name in helped.stdout for name in ("page", "export", "import"))
