import pytest
from helpers.commands import h2htalk

from h2htalk_datasets import TASKS, load
from h2htalk_datasets.corpus.statistics import measure, verb_noun_pairs


def test_verbs_find_their_nouns():
    pairs = verb_noun_pairs(["He drank the tea.", "She took a cup. They take two cups.", "They sold old boats."])
    assert pairs == {("drink", "tea"): 1, ("take", "cup"): 2, ("sell", "boat"): 1}


def test_the_figures_are_counted_not_told():
    rows = {task: load(task).to_list()[:30] for task in ("DialogueEmotion", "RecollectionSynthesis")}
    statistics = measure(rows)
    assert statistics.counts == {task: len(rows[task]) for task in rows}
    emotions = [row["emotion"] for row in rows["DialogueEmotion"]]
    assert statistics.labels["emotion"]["DialogueEmotion"]["joy"] == emotions.count("joy")
    assert sum(statistics.labels["difficulty"]["RecollectionSynthesis"].values()) == len(rows["RecollectionSynthesis"])
    assert all(0 < value <= 1 for values in statistics.distinct.values() for value in values)


@pytest.mark.parametrize("beside", [False, True])
def test_describe_writes_tables_and_figures(tmp_path, request, beside):
    options = ["--beside", request.getfixturevalue("release_folder")] if beside else []
    done = h2htalk("describe", "--out", tmp_path / "out", *options)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out" / "statistics.md").read_text("utf-8")
    assert all(f"| {task} |" in text for task in TASKS)
    assert ("published release" in text) == beside
    for name in ("counts", "lengths", "labels", "verbs", "words"):
        assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_a_folder_that_cant_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    refused = h2htalk("describe", "--out", tmp_path / "file" / "out")
    assert refused.returncode == 2
    assert "can't write" in refused.stderr
