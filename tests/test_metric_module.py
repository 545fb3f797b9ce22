import evaluate
import pytest

import h2htalk_metric
from h2htalk_metric.prepare import prepare_metric

FOLDER = str(h2htalk_metric.__path__[0])


@pytest.fixture(scope="module")
def metric():
    prepare_metric()
    return evaluate.load("h2htalk")


def test_the_module_says_what_it_is(metric):
    assert metric.name == "h2htalk"
    assert "composite" in metric.description
    assert "2507.03543" in metric.citation


def test_compute_gives_means_counts_and_signature(metric):
    result = metric.compute(
        predictions=["a cup of tea", ""], references=["a cup of tea", "no"], embedder="demo", per_item=True
    )
    assert result["bleu4"] == result["rougeL"] == pytest.approx(0.5)
    assert (result["n"], result["empty"]) == (2, 1)
    assert [item["composite"] for item in result["items"]] == pytest.approx([1.0, 0.0], abs=1e-6)
    assert "embedder:demo" in result["signature"]


def test_several_references_and_batches(metric):
    metric.add_batch(predictions=["a cup of tea"], references=[["no", "a cup of tea"]])
    assert metric.compute(embedder="demo")["composite"] == pytest.approx(1.0, abs=1e-6)


def test_the_folder_is_a_module_too_and_takes_a_task_as_config():
    loaded = evaluate.load(FOLDER, "ItineraryMiddle")
    assert loaded.compute(predictions=["x y"], references=["x y"], embedder="demo")["rouge1"] == 1.0


def test_an_unknown_config_lists_the_tasks():
    with pytest.raises(ValueError, match="Did you mean ItineraryMiddle"):
        evaluate.load(FOLDER, "ItineraryMidle")
