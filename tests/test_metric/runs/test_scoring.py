"""The two files of a scored run: plain JSON, and never parts of two scorings."""

import json
import shutil

import pandas as pd
import pytest
from helpers.board_runs import HashedWords, make_run

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.loading import records_of
from h2htalk_metric.metrics.similarity import Embedder
from h2htalk_metric.runs import scoring
from h2htalk_metric.runs.compare import compare_runs
from h2htalk_metric.runs.run import Run
from h2htalk_metric.runs.scored_items import score_answers
from h2htalk_metric.runs.scoring import read_scores, read_stored_scores, score_run
from h2htalk_metric.runs.verify import verify_run

EMBEDDER = Embedder("hashed-words", HashedWords().encode)


@pytest.fixture
def run(tmp_path):
    """Three records of RecollectionSynthesis, scored."""
    return make_run(tmp_path / "run", "org/Model", tasks="RecollectionSynthesis", limit=3)


def answer_all(run, text):
    lines = [json.loads(line) for line in (run / "predictions.jsonl").read_text().splitlines()]
    (run / "predictions.jsonl").write_text("".join(json.dumps(line | {"prediction": text}) + "\n" for line in lines))


def no_json(constant):
    raise AssertionError(f"{constant} is not JSON")


def test_undefined_values_are_null_and_not_nan(run):
    answer_all(run, "I remember nothing.")
    score_run(run, EMBEDDER)
    summary = json.loads((run / "score.json").read_text(), parse_constant=no_json)
    assert summary["memory_labels"]["compared"] == 0
    assert summary["memory_labels"]["category_agreement"] is summary["memory_labels"]["importance_error"] is None
    assert summary["memory_labels"]["content_composite"] >= 0


@pytest.mark.parametrize("last", ["scores.parquet", "score.json"])
def test_an_interrupted_scoring_is_detected(run, monkeypatch, last):
    before = read_scores(run).items
    answer_all(run, "Another answer.")
    write = scoring.write_atomically

    def killed(file, content):
        if file.name == last:
            raise KeyboardInterrupt
        write(file, content)

    monkeypatch.setattr(scoring, "write_atomically", killed)
    with pytest.raises(KeyboardInterrupt):
        score_run(run, EMBEDDER)
    monkeypatch.undo()
    if last == "scores.parquet":
        assert read_stored_scores(run)[0].items.equals(before)
        return
    with pytest.raises(H2HTalkError, match=rf"are from two scorings.*; run: h2htalk score {run}$"):
        read_scores(run)


def test_scores_of_other_answers_are_refused(run):
    assert read_scores(run).items["id"].tolist()
    answer_all(run, "Another answer.")
    with pytest.raises(H2HTalkError, match=rf"have changed since they were scored; run: h2htalk score {run}$"):
        read_scores(run)
    score_run(run, EMBEDDER)
    read_scores(run)


def test_the_same_answers_are_scored_into_the_same_bytes(run):
    files = [run / "scores.parquet", run / "score.json"]
    before = [file.read_bytes() for file in files]
    score_run(run, EMBEDDER)
    assert [file.read_bytes() for file in files] == before


def test_items_carry_what_makes_a_record_hard(run):
    items = read_scores(run).items
    records = Run(run).records
    for column in ("need", "difficulty", "emotion"):
        assert items[column].tolist() == [record[column] for record in records]
    assert items["turns"].tolist() == [len(record["history"]) for record in records]
    assert items["relationship"].tolist() == [record["id"][:6] for record in records]


def test_scores_written_by_0_1_are_read(run):
    items = read_scores(run).items
    summary = json.loads((run / "score.json").read_text())
    old_names = {"scoring_id": "scoring", "answers_digest": "answers", "memory_labels": "synthesis"}
    old = {old_names.get(key, key): value for key, value in summary.items()}
    for figures in old["tasks"].values():
        figures["kept"] = figures.pop("format_rate")
    (run / "score.json").write_text(json.dumps(old))
    columns = ["relationship", "need", "difficulty", "emotion", "turns", "reference_words"]
    stored = pd.read_parquet(run / "scores.parquet").drop(columns=columns).rename(columns={"format_error": "contract"})
    stored.attrs = {"scoring": summary["scoring_id"]}
    stored.to_parquet(run / "scores.parquet")
    scores = read_scores(run)
    assert scores.items["format_error"].tolist() == items["format_error"].tolist()
    assert scores.items["relationship"].tolist() == items["relationship"].tolist()
    assert scores.intervals()["RecollectionSynthesis"].defined


def test_claimed_similarity_gives_the_same_items(run):
    items = read_scores(run).items
    opened = Run(run)
    claimed, signature = score_answers(opened.predictions, opened.records, similarity=items["ss"].to_numpy())
    assert claimed["composite"].tolist() == pytest.approx(items["composite"].tolist(), abs=1e-12)
    assert claimed["content_composite"].isna().all() and signature == {}


def test_a_run_reads_each_file_once(run):
    opened = Run(run)
    scores = read_scores(opened)
    for file in run.iterdir():
        if file.is_file():
            file.unlink()
    assert read_scores(opened) is scores


def test_a_run_over_a_probe_set_has_no_s(run):
    manifest = json.loads((run / "run.json").read_text())
    manifest["dataset"]["tasks"] = ["SafetyHighRisk"]
    (run / "run.json").write_text(json.dumps(manifest))
    with pytest.raises(H2HTalkError, match="answers a probe set, which has no S"):
        score_run(run, EMBEDDER)


def test_the_best_of_all_references_counts_on_request():
    first, second = records_of("DialogueBase")[:2]
    records = [{**first, "alternatives": ["Bring the umbrella, then."]}, {**second, "alternatives": []}]
    answers = [{"prediction": "Bring the umbrella, then."}, {"prediction": second["reference"]}]
    against_first, signature = score_answers(answers, records, embedder=EMBEDDER)
    against_all, signature_of_all = score_answers(answers, records, embedder=EMBEDDER, references="all")
    assert against_all["composite"][0] > 0.9 > against_first["composite"][0]
    assert against_all["composite"][1] == against_first["composite"][1]
    assert "references" not in signature and signature_of_all["references"] == "all"


def test_a_run_scored_against_all_references_is_verified_and_not_compared_with_others(run, tmp_path):
    other = shutil.copytree(run, tmp_path / "other")
    score_run(other, EMBEDDER, "all")
    assert verify_run(other, EMBEDDER) == []
    with pytest.raises(H2HTalkError, match="signatures differ in references"):
        compare_runs(run, other)
    with pytest.raises(H2HTalkError, match="references is 'best'; it is one of: first, all"):
        score_run(run, EMBEDDER, "best")
