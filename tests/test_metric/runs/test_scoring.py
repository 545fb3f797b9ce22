"""The two files of a scored run: plain JSON, and never halves of two scorings."""

import json

import pytest
from helpers.board_runs import HashedWords, make_run

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.metrics.similarity import Embedder
from h2htalk_metric.runs import scoring as run_scores
from h2htalk_metric.runs.scoring import RunScores, score_run


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Three records of RecollectionSynthesis, scored."""
    folder = make_run(tmp_path / "run", "org/Model", tasks="RecollectionSynthesis", limit=3)
    embedder = Embedder("hashed-words", HashedWords(), flag=False)
    monkeypatch.setattr("h2htalk_metric.metrics.composite.load_embedder", lambda _: embedder)
    return folder


def answer_all(run, text):
    lines = [json.loads(line) for line in (run / "predictions.jsonl").read_text().splitlines()]
    (run / "predictions.jsonl").write_text("".join(json.dumps(line | {"prediction": text}) + "\n" for line in lines))


def no_json(constant):
    raise AssertionError(f"{constant} is no JSON")


def test_what_has_no_value_is_null_and_not_nan(run):
    answer_all(run, "I remember nothing.")
    score_run(run, "hashed-words")
    summary = json.loads((run / "score.json").read_text(), parse_constant=no_json)
    assert summary["synthesis"]["compared"] == 0
    assert summary["synthesis"]["category_agreement"] is summary["synthesis"]["importance_error"] is None
    assert summary["synthesis"]["content_composite"] >= 0


@pytest.mark.parametrize("last", ["scores.parquet", "score.json"])
def test_a_scoring_that_was_broken_off_leaves_no_mixture(run, monkeypatch, last):
    before = RunScores.read(run).items
    answer_all(run, "Another answer.")
    write = run_scores.write_atomically

    def killed(file, content):
        if file.name == last:
            raise KeyboardInterrupt
        write(file, content)

    monkeypatch.setattr(run_scores, "write_atomically", killed)
    with pytest.raises(KeyboardInterrupt):
        score_run(run, "hashed-words")
    monkeypatch.undo()
    if last == "scores.parquet":
        assert RunScores.stored(run).items.equals(before)
        return
    with pytest.raises(H2HTalkError, match=rf"are of two scorings.*; run: h2htalk score {run}$"):
        RunScores.read(run)


def test_scores_of_other_answers_are_not_taken_for_the_run_s(run):
    assert RunScores.read(run).items["id"].tolist()
    answer_all(run, "Another answer.")
    with pytest.raises(H2HTalkError, match=rf"are of other answers; run: h2htalk score {run}$"):
        RunScores.read(run)
    score_run(run, "hashed-words")
    RunScores.read(run)


def test_the_same_answers_are_scored_into_the_same_bytes(run):
    files = [run / "scores.parquet", run / "score.json"]
    before = [file.read_bytes() for file in files]
    score_run(run, "hashed-words")
    assert [file.read_bytes() for file in files] == before
