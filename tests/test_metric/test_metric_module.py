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


def test_all_that_score_takes_is_taken(metric):
    answers, references = [None, "a cup", "\ud83d hi"], ["x", ["no", "a cup"], "hi"]
    result = metric.compute(predictions=answers, references=references, embedder="demo", per_item=True)
    assert [round(item["rouge1"], 3) for item in result["items"]] == [0.0, 1.0, 1.0] and result["empty"] == 1
    metric.add_batch(predictions=[], references=[])  # a rank's empty share
    metric.add(prediction="a", reference=["a"])
    assert metric.compute(embedder="demo")["n"] == 1
    with pytest.raises(ValueError, match="predictions is one text; give a list"):
        metric.compute(predictions="hello", references="hello", embedder="demo")


def test_the_folder_is_a_module_too_and_takes_a_task_as_config():
    loaded = evaluate.load(FOLDER, "ItineraryMiddle")
    assert loaded.compute(predictions=["x y"], references=["x y"], embedder="demo")["rouge1"] == 1.0


def test_an_unknown_config_lists_the_tasks():
    with pytest.raises(ValueError, match="Did you mean ItineraryMiddle"):
        evaluate.load(FOLDER, "ItineraryMidle")


LENGTH = """
import datasets
import evaluate


class Length(evaluate.Metric):
    def _info(self):
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description="", citation="", features=datasets.Features({"predictions": text, "references": text})
        )

    def _compute(self, predictions, references, **options):
        return {"letters": sum(map(len, predictions))}
"""


def test_it_combines_with_another_module(metric, tmp_path):
    (tmp_path / "length").mkdir()
    (tmp_path / "length" / "length.py").write_text(LENGTH)
    both = evaluate.combine([metric, evaluate.load(str(tmp_path / "length"))])
    result = both.compute(predictions=["tea"], references=["tea"], embedder="demo")
    assert (result["letters"], result["rouge1"]) == (3, 1.0)


PART = """
import evaluate, json, sys
rank = int(sys.argv[1])
metric = evaluate.load(sys.argv[2], num_process=2, process_id=rank, experiment_id="two", cache_dir=sys.argv[3])
texts = [["we walk home", "tea"], ["a boat"]][rank]
metric.add_batch(predictions=texts, references=["we walk home", "tea", "no"][2 * rank : 2 * rank + len(texts)])
result = metric.compute(embedder="demo")
print("RESULT " + json.dumps(result))
"""


def test_two_processes_on_one_machine(tmp_path):
    import json
    import subprocess
    import sys

    command = [sys.executable, "-c", PART]
    ranks = [
        subprocess.Popen([*command, str(rank), FOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for rank in (0, 1)
    ]
    outputs = [rank.communicate(timeout=200)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    result = json.loads(outputs[0].split("RESULT ")[1])
    assert result["n"] == 3
    assert result["rouge1"] == pytest.approx(2 / 3)


def test_lists_of_languages_and_wrong_types(metric):
    result = metric.compute(predictions=["茶", "tea"], references=["茶", "tea"], language=["zh", "en"], embedder="demo")
    assert result["rouge1"] == 1.0
    with pytest.raises(ValueError, match="unknown language 'fr'"):
        metric.compute(predictions=["a"], references=["a"], language="fr", embedder="demo")
    with pytest.raises(ValueError):
        metric.compute(predictions=[{"text": "a"}], references=["a"], embedder="demo")


def test_the_cards_examples_hold():
    """The worked examples on the metric card are run as they stand there."""
    import re
    from pathlib import Path

    card = (Path(FOLDER) / "README.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    assert len(blocks) >= 2
    space: dict = {}
    for block in blocks:
        exec(block, space)
