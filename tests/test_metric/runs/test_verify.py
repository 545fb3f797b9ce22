"""`h2htalk verify` reports any figure of the two files that does not follow from the answers."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers.board_runs import HashedWords, make_run

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.metrics.similarity import Embedder
from h2htalk_metric.runs.scoring import score_run
from h2htalk_metric.runs.verify import verify_run


class Rounding(HashedWords):
    """Rounds as half precision does."""

    def encode(self, texts, **_):
        vectors = super().encode(texts)
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)


def embedder_of(model, precision=None):
    return Embedder("hashed-words", model.encode, precision=precision)


PLAIN = embedder_of(HashedWords())


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """A scored run of one record per task."""
    return make_run(tmp_path_factory.mktemp("verify") / "run", "org/Model", limit=1)


@pytest.fixture
def run(scored, tmp_path):
    return Path(shutil.copytree(scored, tmp_path / "run"))


def test_a_scored_run_is_confirmed(run):
    assert verify_run(run, PLAIN) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("row", "Overall"), 99.0),
        (("row", "DialogueEmotion"), None),
        (("tasks", "ItineraryBasic", "format_rate"), 0.5),
        (("tasks", "ItineraryBasic", "bleu4"), float("nan")),
        (("memory_labels", "content_composite"), 0.5),
        (("signature", "embedder_revision"), "other"),
        (("signature", "tokenizers", "en"), "other"),
    ],
)
def test_an_edited_figure_of_score_json_is_reported(run, path, value):
    summary = json.loads((run / "score.json").read_text())
    place = summary
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    (run / "score.json").write_text(json.dumps(summary))
    (line,) = verify_run(run, PLAIN)
    assert line.startswith(f"{'.'.join(path)}: stored ")


def test_another_version_is_named_only_with_a_difference(run):
    summary = json.loads((run / "score.json").read_text())
    summary["signature"] |= {"h2htalk": "0.0.1", "libraries": {"sacrebleu": "1.0"}}
    (run / "score.json").write_text(json.dumps(summary))
    assert verify_run(run, PLAIN) == []
    summary["row"]["Overall"] = 99.0
    (run / "score.json").write_text(json.dumps(summary))
    names = [line.split(":")[0] for line in verify_run(run, PLAIN)]
    assert names == ["signature.h2htalk", "signature.libraries.sacrebleu", "row.Overall"]
    del summary["signature"]["embedder"]
    (run / "score.json").write_text(json.dumps(summary))
    with pytest.raises(H2HTalkError, match="names no embedder; score the run again"):
        verify_run(run, PLAIN)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("composite", 0.99),
        ("rouge1", np.nan),
        ("format_error", "of another form"),
        ("content_composite", 0.99),
        ("category_agreement", 0.123),
        ("finish_reason", "length"),
        ("new_tokens", 1),
        ("empty", True),
        ("task", "DialogueBase"),
    ],
)
def test_an_edited_column_of_scores_parquet_is_reported(run, column, value):
    items = pd.read_parquet(run / "scores.parquet")
    place = int((items["task"] == "RecollectionSynthesis").argmax())
    items[column] = items[column].astype(object)
    items.loc[place, column] = value
    items.to_parquet(run / "scores.parquet")
    (line,) = verify_run(run, PLAIN)
    name = "S" if column == "composite" else column
    assert line.startswith(f"{items['id'][place]}: stored {name} ")


def test_a_column_that_is_missing_is_reported(run):
    items = pd.read_parquet(run / "scores.parquet").drop(columns="format_error")
    items.to_parquet(run / "scores.parquet")
    assert verify_run(run, PLAIN) == ["scores.parquet lacks columns or has others: 'format_error'"]


def test_another_precision_alone_is_reported_as_the_only_difference(run):
    (line,) = verify_run(run, embedder_of(Rounding(), "float16"))
    assert line.startswith("only the embedder's precision differs: None when the run was scored, float16 here")


def test_half_precision_may_differ_in_the_last_digits_between_machines(run):
    class OtherMachine(Rounding):
        def encode(self, texts, **_):
            return np.nextafter(super().encode(texts), np.float16(1))

    score_run(run, embedder_of(Rounding(), "float16"))
    assert verify_run(run, embedder_of(OtherMachine(), "float16")) == []


def test_another_precision_does_not_hide_an_edit(run):
    items = pd.read_parquet(run / "scores.parquet")
    items.loc[0, "bleu1"] += 0.001
    items.to_parquet(run / "scores.parquet")
    first, second = verify_run(run, embedder_of(Rounding(), "float16"))
    assert first.startswith("the embedder's precision differs")
    assert second.startswith(f"{items['id'][0]}: stored bleu1 ")


def as_written_by_0_1(run, edit):
    """Rewrite the two files as h2htalk 0.1 did, with one edit of the items."""
    items = pd.read_parquet(run / "scores.parquet")
    summary = json.loads((run / "score.json").read_text())
    summary["scoring"] = summary.pop("scoring_id")
    (run / "score.json").write_text(json.dumps(summary))
    columns = ["relationship", "need", "difficulty", "emotion", "turns", "reference_words", "fact_errors"]
    old = items.drop(columns=columns).rename(columns={"format_error": "contract"})
    edit(old)
    old.attrs = {"scoring": summary["scoring"]}
    old.to_parquet(run / "scores.parquet")


def test_a_run_scored_by_0_1_is_confirmed(run):
    as_written_by_0_1(run, lambda items: None)
    assert verify_run(run, PLAIN) == []


def test_word_counts_of_0_1_are_named_as_the_reason(run):
    def too_many_words(items):
        items["contract"] = items["contract"].astype(object)
        items.loc[0, "contract"] = "41 words, the limit is 40"

    as_written_by_0_1(run, too_many_words)
    (line,) = verify_run(run, PLAIN)
    assert line.startswith(
        "format_error of 1 items and the format rates: h2htalk 0.1 counted dashes and emoji as words"
    )
