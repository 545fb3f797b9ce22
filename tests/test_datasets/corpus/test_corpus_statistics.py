import pytest
from helpers.commands import h2htalk

from h2htalk_datasets import TASKS, load
from h2htalk_datasets.corpus.statistics import measure, verb_noun_pairs
from h2htalk_datasets.words import words


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("He drank the tea. They sold old boats.", {("drink", "tea"): 1, ("sell", "boat"): 1}),
        ("She took a cup. They take two cups.", {("take", "cup"): 2}),
        ("He lifts her left hand. On the left side. Left hand up! Josh's left shoulder.", {("lift", "hand"): 1}),
        ("You left the house. They left half a bar.", {("leave", "house"): 1, ("leave", "half"): 1}),
        ("Tell Ana, bed is ready. She said nothing and walked home.", {}),
    ],
)
def test_verbs_and_their_nouns(text, pairs):
    assert verb_noun_pairs([text]) == pairs


def test_statistics_are_measured():
    rows = [row for task in ("DialogueEmotion", "RecollectionSynthesis") for row in load(task).to_list()[:30]]
    statistics = measure(rows)
    assert list(statistics.records["task"]) == [row["task"] for row in rows]
    assert list(statistics.records["emotion"].dropna()) == [row["emotion"] for row in rows if row["emotion"]]
    assert statistics.records["prompt_length"][0] == len(words(rows[0]["messages"][1]["content"]))
    assert all(0 < value <= 1 for values in statistics.distinct.values() for value in values)


def test_instructions_and_references_are_counted_separately():
    row = load("ItineraryResponse")[0] | {"history": [{"role": "user", "content": "Please close the door."}]}
    statistics = measure([row | {"instruction": None, "reference": "I opened a window."}])
    assert statistics.instruction_pairs == {("close", "door"): 1}
    assert statistics.reference_pairs == {("open", "window"): 1}


@pytest.mark.parametrize("with_release", [False, True])
def test_describe_writes_tables_and_figures(tmp_path, request, with_release):
    options = ["--authors-release", request.getfixturevalue("release_folder")] if with_release else []
    done = h2htalk("describe", "--out", tmp_path / "out", *options)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out" / "statistics.md").read_text("utf-8")
    assert all(f"| {task} |" in text for task in TASKS)
    assert "| in instructions | times | in references | times |" in text
    assert ("published release" in text) == with_release
    for name in ("counts", "lengths", "labels", "verbs", "words"):
        assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    done = h2htalk("describe", "--out", tmp_path / "file" / "out")
    assert done.returncode == 2
    assert "can't write" in done.stderr
