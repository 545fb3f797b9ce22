"""What `h2htalk verify` finds: any figure of the two files that does not follow from the answers."""

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


def use(monkeypatch, model, precision):
    embedder = Embedder("hashed-words", model, flag=False, precision=precision)
    monkeypatch.setattr("h2htalk_metric.metrics.composite.load_embedder", lambda _: embedder)


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """A scored run of one record a task."""
    return make_run(tmp_path_factory.mktemp("verify") / "run", "org/Model", limit=1)


@pytest.fixture
def run(scored, tmp_path, monkeypatch):
    use(monkeypatch, HashedWords(), None)
    return Path(shutil.copytree(scored, tmp_path / "run"))


def test_a_scored_run_stands(run):
    assert verify_run(run) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("row", "Overall"), 99.0),
        (("row", "DialogueEmotion"), None),
        (("tasks", "ItineraryBasic", "kept"), 0.5),
        (("tasks", "ItineraryBasic", "bleu4"), float("nan")),
        (("synthesis", "content_composite"), 0.5),
        (("signature", "embedder_revision"), "other"),
        (("signature", "tokenizers", "en"), "other"),
    ],
)
def test_an_edited_figure_of_score_json_does_not_stand(run, path, value):
    summary = json.loads((run / "score.json").read_text())
    place = summary
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    (run / "score.json").write_text(json.dumps(summary))
    (fault,) = verify_run(run)
    assert fault.startswith(f"{'.'.join(path)}: stored ")


def test_another_version_is_no_fault_and_is_named_beside_one(run):
    summary = json.loads((run / "score.json").read_text())
    summary["signature"] |= {"h2htalk": "0.0.1", "libraries": {"sacrebleu": "1.0"}}
    (run / "score.json").write_text(json.dumps(summary))
    assert verify_run(run) == []
    summary["row"]["Overall"] = 99.0
    (run / "score.json").write_text(json.dumps(summary))
    told = [fault.split(":")[0] for fault in verify_run(run)]
    assert told[:2] == ["signature.h2htalk", "signature.libraries.rouge-score"] and told[-1] == "row.Overall"
    del summary["signature"]["embedder"]
    (run / "score.json").write_text(json.dumps(summary))
    with pytest.raises(H2HTalkError, match="names no embedder; score the run again"):
        verify_run(run)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("composite", 0.99),
        ("rouge1", np.nan),
        ("contract", "of another form"),
        ("content_composite", 0.99),
        ("category_agreement", 0.123),
        ("finish_reason", "length"),
        ("new_tokens", 1),
        ("empty", True),
        ("task", "DialogueBase"),
    ],
)
def test_an_edited_column_of_scores_parquet_does_not_stand(run, column, value):
    items = pd.read_parquet(run / "scores.parquet")
    place = int((items["task"] == "RecollectionSynthesis").argmax())
    items[column] = items[column].astype(object)
    items.loc[place, column] = value
    items.to_parquet(run / "scores.parquet")
    (fault,) = verify_run(run)
    name = "S" if column == "composite" else column
    assert fault.startswith(f"{items['id'][place]}: stored {name} ")


def test_a_column_that_is_gone_does_not_stand(run):
    items = pd.read_parquet(run / "scores.parquet").drop(columns="contract")
    items.to_parquet(run / "scores.parquet")
    assert verify_run(run) == ["scores.parquet lacks columns or has others: 'contract'"]


def test_another_precision_alone_is_said_to_be_all_that_differs(run, monkeypatch):
    use(monkeypatch, Rounding(), "float16")
    (fault,) = verify_run(run)
    assert fault.startswith("only the embedder's precision differs, None when it was scored and float16 here")


def test_half_precision_is_not_the_same_to_the_last_digit_on_two_machines(run, monkeypatch):
    class OtherMachine(Rounding):
        def encode(self, texts, **_):
            return np.nextafter(super().encode(texts), np.float16(1))

    use(monkeypatch, Rounding(), "float16")
    score_run(run, "hashed-words")
    use(monkeypatch, OtherMachine(), "float16")
    assert verify_run(run) == []


def test_another_precision_covers_no_edit(run, monkeypatch):
    items = pd.read_parquet(run / "scores.parquet")
    items.loc[0, "bleu1"] += 0.001
    items.to_parquet(run / "scores.parquet")
    use(monkeypatch, Rounding(), "float16")
    first, second = verify_run(run)
    assert first.startswith("the embedder's precision differs")
    assert second.startswith(f"{items['id'][0]}: stored bleu1 ")
