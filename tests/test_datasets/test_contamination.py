"""13-gram overlap of training data with the records, against records that are known to be in them."""

import json

import pytest
from helpers.commands import h2htalk

from h2htalk_datasets.contamination import check_contamination, texts_of_file
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.loading import records_of
from h2htalk_datasets.tasks import TASKS
from h2htalk_datasets.words import words


@pytest.fixture(scope="module")
def record():
    return next(row for row in records_of("ItineraryBasic") if len(words(row["reference"])) > 40)


def test_a_copied_reference_is_found_in_any_case_and_punctuation(record):
    copy = " ".join(word.upper() + "!" for word in words(record["reference"]))
    result = check_contamination(["Something else.", f"before {copy} after"])
    assert [(one.id, one.part) for one in result.overlaps] == [(record["id"], "reference")]
    (found,) = result.overlaps
    assert found.shared == found.total and found.place == 2 and result.texts == 2
    assert found.example in " ".join(words(record["reference"]))


def test_thirteen_words_count_and_twelve_do_not(record):
    tokens = words(record["reference"])
    assert check_contamination([" ".join(tokens[5:17])]).overlaps == []
    (found,) = check_contamination([" ".join(tokens[5:18])]).overlaps
    assert (found.shared, found.example) == (1, " ".join(tokens[5:18]))


def test_a_prompt_is_found_by_its_own_part_and_templates_and_persona_are_not():
    record = records_of("DialogueSchedule")[7]
    system, user = (message["content"] for message in record["messages"])
    assert check_contamination([system]).overlaps == []
    found = {(one.id, one.part) for one in check_contamination([user]).overlaps if one.shared == one.total}
    assert (record["id"], "prompt") in found


def test_every_record_is_checked_or_counted_as_too_short():
    result = check_contamination([])
    for task in TASKS:
        references = sum(1 + len(row["alternatives"]) for row in records_of(task))
        for part, count in (("prompt", TASKS[task].count), ("reference", references)):
            assert result.checked[task, part] + result.too_short[task, part] == count


def test_all_strings_of_a_file_are_read(tmp_path):
    tree = {"messages": [{"role": "user", "content": "one"}], "number": 3, "deep": {"list": ["two"]}}
    (tmp_path / "a.jsonl").write_text(json.dumps(tree) + "\n\n" + json.dumps("three") + "\n")
    assert list(texts_of_file(tmp_path / "a.jsonl")) == ["user", "one", "two", "three"]
    (tmp_path / "a.json").write_text(json.dumps([tree]))
    assert list(texts_of_file(tmp_path / "a.json")) == ["user", "one", "two"]
    (tmp_path / "a.txt").write_text("a\nb")
    assert list(texts_of_file(tmp_path / "a.txt")) == ["a\nb"]


def test_parquet_is_read(tmp_path):
    import pandas as pd

    pd.DataFrame({"text": ["one", "two"], "n": [1, 2]}).to_parquet(tmp_path / "a.parquet")
    assert list(texts_of_file(tmp_path / "a.parquet")) == ["one", "two"]


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(H2HTalkError, match="cannot read"):
        list(texts_of_file(tmp_path / "none.jsonl"))
    (tmp_path / "bad.jsonl").write_text("{}\n{")
    with pytest.raises(H2HTalkError, match=r"bad\.jsonl, line 2 is not JSON"):
        list(texts_of_file(tmp_path / "bad.jsonl"))


def test_the_command_ends_with_1_if_a_record_is_found(record, tmp_path):
    (tmp_path / "train.jsonl").write_text(json.dumps({"text": record["reference"]}) + "\n")
    found = h2htalk("check-contamination", tmp_path / "train.jsonl")
    assert found.returncode == 1 and record["id"] in found.stdout
    assert "1 records overlap with the 1 texts" in found.stdout
