"""Marks as CSV: blank sheets that are filled and imported, reviews from one copy to another, the command."""

import csv
from hashlib import sha256

import pandas as pd
import pytest
from helpers.commands import h2htalk
from helpers.review_parts import RUBRIC, SAFETY, four_items, judged_run, marks, safety

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.review import Reviews
from h2htalk_metric.review.sheet import export_blank, export_reviews, import_reviews


@pytest.fixture
def reviews(tmp_path):
    return four_items(tmp_path)


@pytest.fixture
def judged(tmp_path):
    return judged_run(tmp_path / "run")


def test_the_csv_of_reviews_has_one_row_per_item_and_rater(reviews):
    reviews.save("c", "=Ana", marks(3, 4), '=HYPERLINK("http://x";"y")')
    reviews.save("c", "=Ana", marks(2, 4), "-2, oder mehr\nÜber alles")
    reviews.save("d", "Ben", safety(1, 5, 4))
    file = export_reviews(reviews.file.parent)
    assert file.read_bytes().startswith(b"\xef\xbb\xbf")
    rows = pd.read_csv(file, dtype=str, keep_default_na=False).to_dict("records")
    columns = "id task rater rubric answer_hash true warm safe care plain comment revision time".split()
    assert list(rows[0]) == [*columns, "inclusion_probability"]
    assert [rows[0][name] for name in columns[:-1]] == [
        "c", "Small", "'=Ana", RUBRIC.hash, digest("=1+1"), "2", "4", "", "", "", "'-2, oder mehr\nÜber alles", "2",
    ]  # fmt: skip
    assert [rows[1][name] for name in columns[:-1]] == [
        "d", "Safety", "Ben", SAFETY.hash, digest("An answer."), "", "", "1", "5", "4", "", "1",
    ]  # fmt: skip


def digest(answer):
    return sha256(answer.encode()).hexdigest()[:12]


def fill(sheet, out, rater, by_id, delimiter=","):
    with sheet.open(encoding="utf-8-sig", newline="") as source:
        rows = [row | by_id.get(row["id"], {}) | {"rater": rater} for row in csv.DictReader(source)]
    with out.open("w", encoding="utf-8", newline="") as target:
        writer = csv.DictWriter(target, rows[0].keys(), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return out


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_blank_sheet_is_filled_and_imported(reviews, tmp_path, delimiter):
    folder = reviews.file.parent
    reviews.save("a", "Ana", marks(3, 4), "not for others")
    sheet, rubrics = export_blank(folder)
    text = sheet.read_text("utf-8-sig")
    assert "not for others" not in text
    assert "flagged" not in text
    assert "'=1+1" in text
    assert "5  Level 5." in rubrics.read_text()
    by_id = {"a": {"true": "2", "warm": "5.0"}, "d": {"safe": "1", "care": " 3", "plain": "4", "comment": "'=x"}}
    filled = fill(sheet, tmp_path / "filled.csv", "Ben", by_id, delimiter)
    assert import_reviews(folder, filled) == (2, 0)
    assert import_reviews(folder, filled) == (0, 2)
    latest = reviews.latest()
    assert latest["a"]["Ben"].marks == marks(2, 5)
    assert latest["d"]["Ben"].marks == safety(1, 3, 4)
    assert (latest["d"]["Ben"].comment, latest["d"]["Ben"].source) == ("=x", "import")
    reviews.save("a", "Ben", marks(3, 5))  # a correction on the page is not undone by the same file
    assert import_reviews(folder, filled) == (0, 2)
    assert reviews.latest()["a"]["Ben"].marks == marks(3, 5)


def test_of_two_sheets_the_last_import_counts(reviews, tmp_path):
    folder = reviews.file.parent
    sheet, _ = export_blank(folder)
    first, second = (
        fill(sheet, tmp_path / f"{mark}.csv", "Ben", {"a": {"true": mark, "warm": "5"}}) for mark in ("2", "3")
    )
    for file, mark in ((first, 2), (second, 3), (first, 2)):
        assert import_reviews(folder, file) == (1, 0)
        assert reviews.latest()["a"]["Ben"].marks == marks(mark, 5)
    assert import_reviews(folder, first) == (0, 1)


def test_a_rater_marks_an_item_only_once_in_a_sheet(reviews, tmp_path):
    file = tmp_path / "twice.csv"
    by = f"{RUBRIC.hash},{digest('An answer.')}"
    rows = [f"a,Ana,{by},3,4", f"b,Ana,{by},3,4", f"a,ANA,{by},5,5"]
    file.write_text(
        "\n".join(["id,rater,rubric,answer_hash,true,warm,safe,care,plain", *(f"{row},,," for row in rows)])
    )
    with pytest.raises(H2HTalkError, match="row 4: ANA's marks of a are in row 2 already"):
        import_reviews(reviews.file.parent, file)
    assert reviews.latest()["b"] == {}


def test_a_sheet_of_an_earlier_version_calls_the_comment_a_note(reviews, tmp_path):
    file = tmp_path / "old.csv"
    columns = "id,rater,rubric,answer_hash,true,warm,safe,care,plain,note"
    file.write_text(f"{columns}\na,Ana,{RUBRIC.hash},{digest('An answer.')},3,4,,,,from before\n")
    assert import_reviews(reviews.file.parent, file) == (1, 0)
    assert reviews.latest()["a"]["Ana"].comment == "from before"


def test_reviews_of_one_copy_are_imported_into_another(reviews, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    copy = Reviews.create(other, reviews.items.values(), {"seed": 3})
    reviews.save("a", "=Ana", marks(3, 4), "\t-1")
    copy.save("a", "Ben", marks(3, 3))
    assert import_reviews(other, export_reviews(reviews.file.parent)) == (1, 0)
    assert {name: m.marks for name, m in copy.latest()["a"].items()} == {"Ben": marks(3, 3), "=Ana": marks(3, 4)}
    assert copy.latest()["a"]["=Ana"].comment == "-1"


def test_each_error_of_a_file_is_listed_by_its_row_and_nothing_is_imported(reviews, tmp_path):
    of, s = digest("An answer."), SAFETY.hash
    h = f"{RUBRIC.hash},{of}"
    file = tmp_path / "faulty.csv"
    file.write_text(
        "id,rater,rubric,answer_hash,true,warm,safe,care,plain,comment\n"
        f"a,Ana,{h},3,4,,,\n"
        f"zzz,Ana,{h},3,4,,,\n"
        f"b,Ana,{s},{of},3,4,,,\n"
        f"b,Ana,{RUBRIC.hash},{digest('Another.')},3,4,,,\n"
        f"b,Ana,{h},3,,,,\n"
        f"b,Ana,{h},3,7,,,\n"
        f"b,,{h},3,4,,,\n"
        f"a,Ben,{h},good,4,,,\n"
        f"a,Ben,{h},3,4,1,,\n"
        f"a,Ben,{h},,,,,\n"
        f"c,Ben,{RUBRIC.hash},{digest('=1+1')},3,4,,,,{'x' * 4001}\n"
    )
    with pytest.raises(H2HTalkError) as error:
        import_reviews(reviews.file.parent, file)
    lines = str(error.value).splitlines()[1:]
    assert [line.split(":")[0].strip() for line in lines] == [f"row {n}" for n in (*range(3, 11), 12)]
    for line, part in zip(
        lines,
        [
            "no item 'zzz'",
            s,
            "another answer to b",
            "warm: no mark",
            "'7' is not one",
            "rater's name",
            "'good' is not one",
            "safe: not a criterion",
            "a comment is a text of at most 4000 characters",
        ],
        strict=True,
    ):
        assert part in line
    assert reviews.latest()["a"] == {}
    file.write_text(f"id,rater\na,{'x' * 200_000}\n")
    with pytest.raises(H2HTalkError, match="cannot be read as CSV"):
        import_reviews(reviews.file.parent, file)
    file.write_text("id,rater\na,Ana\n")
    with pytest.raises(H2HTalkError, match="has no column rubric, answer_hash, true, warm"):
        import_reviews(reviews.file.parent, file)


def test_export_and_import_on_the_command_line(judged):
    blank = h2htalk("review", "export", judged, "--blank")  # the first review command of this run selects the items
    assert blank.returncode == 0, blank.stderr
    reviews = Reviews(judged)
    assert len(reviews.items) == 5
    assert h2htalk("review", "export", judged, "--blank").returncode == 0
    assert Reviews(judged).items == reviews.items
    for option in (("--controls", 1), ("--seed", 5)):
        refused = h2htalk("review", judged, *option)
        assert refused.returncode == 2 and "already selected" in refused.stderr
    criteria = dict.fromkeys(["well_paced", "true_to_persona", "grounded", "vivid", "keeps_form"], "4")
    filled = fill(judged / "review-sheet.csv", judged / "filled.csv", "Ana", dict.fromkeys(reviews.items, criteria))
    imported = h2htalk("review", "import", judged, filled)
    assert "5 added, 0 were there already" in imported.stdout, imported.stderr
    exported = h2htalk("review", "export", judged)
    assert exported.returncode == 0, exported.stderr
    assert "flagged" in exported.stdout
    assert len(pd.read_csv(judged / "reviews.csv")) == 5


def test_wrong_input_is_one_line(judged, tmp_path):
    for arguments, message in [
        (["review", "nowhere"], "nowhere is not a run folder"),
        (["review", "export", judged], "has no reviews yet; run: h2htalk review"),
        (["review", "import", judged, "none.csv"], "has no reviews yet"),
    ]:
        refused = h2htalk(*arguments, cwd=tmp_path)
        assert refused.returncode == 2
        assert message in refused.stderr
        assert "Traceback" not in refused.stderr
    (judged / "judge.json").unlink()
    refused = h2htalk("review", judged)
    assert (refused.returncode, "has no judgements" in refused.stderr) == (2, True)
    helped = h2htalk("review", "--help")
    assert all(name in helped.stdout for name in ("page", "export", "import"))
