"""The callback in real training, on one process and two."""

import json
from types import SimpleNamespace

import pytest
import torch
from helpers.commands import run
from helpers.launch import alone, torchrun
from helpers.paths import PROGRAMS
from transformers import AutoModelForCausalLM, Gemma3Config, GenerationConfig

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.callback import H2HTalkCallback, ready_for_generation

SCRIPT = str(PROGRAMS / "train_with_callback.py")


def train(tiny_model, tmp_path, processes, embedders, dropout=0.0):
    command = (torchrun if processes > 1 else alone)(processes, [SCRIPT])
    done = run(*command, str(tiny_model), str(tmp_path / "out"), str(4 // processes), embedders, str(dropout))
    line = next((line for line in done.stdout.splitlines() if line.startswith("RESULT ")), None)
    assert line, done.stderr[-3000:]
    return json.loads(line.removeprefix("RESULT "))


def figures_of(entry):
    return {key: value for key, value in entry.items() if "h2htalk" in key}


def test_one_and_two_processes_log_the_same_figures_and_the_light_mode_is_never_called_s(tiny_model, tmp_path):
    one = train(tiny_model, tmp_path / "1", 1, "demo,lexical")
    two = train(tiny_model, tmp_path / "2", 2, "demo")
    full, light = one["logged"][::2], one["logged"][1::2]
    assert [entry["step"] for entry in full] == [2, 4, 4]
    parts = ["bleu1", "bleu2", "bleu3", "bleu4", "rouge1", "rougeL"]
    for mine, other in zip(full, two["logged"], strict=True):
        figures = figures_of(mine)
        assert figures == pytest.approx({key: other[key] for key in figures}, abs=1e-6)
    for entry in full:
        assert set(figures_of(entry)) == {f"eval_h2htalk_{name}" for name in (*parts, "ss", "composite")}
    for entry in light:
        figures = figures_of(entry)
        assert figures["eval_h2htalk_lexical"] == pytest.approx(
            sum(figures[f"eval_h2htalk_{name}"] for name in parts) / 6
        )
        assert not {"eval_h2htalk_composite", "eval_h2htalk_ss"} & set(figures)
    assert one["metrics"]["eval_h2htalk_composite"] == full[-1]["eval_h2htalk_composite"]


@pytest.mark.slow
def test_two_callbacks_in_one_job_each_answer_every_record(tiny_model, tmp_path):
    logged = train(tiny_model, tmp_path, 2, "lexical,lexical")["logged"]
    assert [entry["step"] for entry in logged] == [2, 2, 4, 4, 4, 4]
    for first, second in zip(logged[::2], logged[1::2], strict=True):
        assert first == second


@pytest.mark.slow
def test_training_with_dropout_ends_in_the_same_weights_with_and_without_evaluation(tiny_model, tmp_path):
    without, evaluated = (
        train(tiny_model, tmp_path / str(place), 1, embedders, dropout=0.1)["weights"]
        for place, embedders in enumerate(("", "demo"))
    )
    assert without == evaluated


def test_a_lora_and_a_vision_model_keep_their_training_settings(tiny_model):
    peft = pytest.importorskip("peft")
    base = AutoModelForCausalLM.from_pretrained(tiny_model)
    base.generation_config.temperature = 0.7
    config = base.generation_config
    lora = peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj"]))
    lora.train()
    with ready_for_generation(lora) as model:
        assert not model.training
        model.generate(torch.ones(1, 2, dtype=torch.long), generation_config=GenerationConfig(max_new_tokens=1))
    assert base.generation_config is config and config.temperature == 0.7 and lora.training
    vision = SimpleNamespace(config=Gemma3Config(), generation_config=config, training=True, eval=list)
    vision.train = lambda mode: setattr(vision, "training", mode)
    vision.config.get_text_config().use_cache = False
    with ready_for_generation(vision) as model:
        assert model.config.get_text_config().use_cache
    assert not vision.config.get_text_config().use_cache


def test_a_sharded_model_and_a_missing_tokenizer_are_refused(tiny_model):
    with pytest.raises(H2HTalkError, match="FSDP and ZeRO-3 shard it"):
        H2HTalkCallback(SimpleNamespace(is_fsdp_enabled=True), tasks="ItineraryResponse", limit=1)
    callback = H2HTalkCallback(SimpleNamespace(), tasks="ItineraryResponse", limit=1, embedder=None)
    with pytest.raises(H2HTalkError, match=r"give it as Trainer\(processing_class=tokenizer\)"):
        callback.on_evaluate(None, None, None, model=None, processing_class=None)


def test_an_embedder_that_cannot_be_loaded_is_refused_before_the_training():
    with pytest.raises(H2HTalkError, match="cannot load the embedder 'no/such-embedder'"):
        H2HTalkCallback(SimpleNamespace(), tasks="ItineraryResponse", limit=1, embedder="no/such-embedder")
