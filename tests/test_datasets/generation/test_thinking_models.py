"""Models that think, and chat templates with variables: thoughts off, or a run that stops before they fill it."""

import shutil
from dataclasses import replace

import pytest
import torch
from helpers.launch import lines_on_disk, prediction_ids
from helpers.servers import scripted

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation import Settings, generate
from h2htalk_datasets.generation.distributed.state import DistributedState
from h2htalk_datasets.generation.engines.models import load_model
from h2htalk_datasets.prompts import chat_text, template_arguments

TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"
    "{% if enable_thinking is not defined or enable_thinking %}<think>\n{% endif %}"
)
WITHOUT = '{"enable_thinking": false}'


@pytest.fixture(scope="module")
def thinking(tiny_model, tmp_path_factory):
    """A model of random weights whose template opens a thought that never ends."""
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp("thinking") / "model"
    shutil.copytree(tiny_model, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return Settings(model=str(folder), tasks="ItineraryResponse", limit=24)


def test_a_run_that_would_consist_of_thoughts_stops_with_advice(thinking, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(
        H2HTalkError, match=r"20 of the first 20 answers are empty.*--thinking-tokens 2048.*--allow-empty"
    ):
        generate(thinking, out)
    assert 20 <= lines_on_disk(out) < 24
    assert not (out / "predictions.jsonl").exists()
    complete = generate(replace(thinking, allow_empty=True), out)
    assert len(prediction_ids(complete.read_bytes())) == 24
    answered = generate(replace(thinking, chat_template_kwargs=WITHOUT), tmp_path / "without").read_text()
    assert '"prediction": ""' not in answered
    assert '"chat_template_kwargs": {' in (tmp_path / "without" / "run.json").read_text()


def test_another_thinking_option_is_another_run(thinking, tmp_path):
    settings = replace(thinking, limit=2)
    generate(settings, tmp_path / "run")
    with pytest.raises(H2HTalkError, match="chat_template_kwargs.enable_thinking"):
        generate(replace(settings, chat_template_kwargs=WITHOUT), tmp_path / "run")


def test_arguments_reach_the_template(demo):
    tokenizer = demo.tokenizer
    before, tokenizer.chat_template = tokenizer.chat_template, TEMPLATE
    try:
        messages = [{"role": "user", "content": "hello"}]
        assert chat_text(messages, tokenizer).endswith("assistant:<think>\n")
        assert chat_text(messages, tokenizer, {"enable_thinking": False}).endswith("assistant:")
    finally:
        tokenizer.chat_template = before


def test_arguments_reach_a_server(tmp_path):
    requests = []
    with scripted(lambda request: requests.append(request) or "hello") as server:
        settings = Settings("m", "ItineraryInitialization", 1, base_url=server.url, chat_template_kwargs=WITHOUT)
        generate(settings, tmp_path / "run")
    assert [request["chat_template_kwargs"] for request in requests] == [{"enable_thinking": False}]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{enable_thinking: false}", "--chat-template-kwargs is not JSON"),
        ("[1]", "must be a JSON object"),
        ('{"tokenize": true}', "cannot set tokenize"),
    ],
)
def test_wrong_arguments_are_one_line(text, reason):
    with pytest.raises(H2HTalkError, match=reason):
        template_arguments(text)


def test_no_arguments_are_no_arguments():
    assert template_arguments("") == {}


def test_an_accelerator_that_is_not_supported_is_named(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("mps"))
    with pytest.raises(H2HTalkError, match="accelerator of type 'mps'.*ACCELERATE_USE_CPU=1"):
        DistributedState()
    monkeypatch.setenv("ACCELERATE_USE_CPU", "1")
    assert DistributedState().device.type == "cpu"


def test_a_checkpoint_in_float32_is_loaded_in_bfloat16_except_on_a_cpu(tiny_model, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    assert load_model(str(tiny_model), device="meta").model.dtype == torch.bfloat16
    assert load_model(str(tiny_model), device="meta", dtype="float32").model.dtype == torch.float32
    assert load_model(str(tiny_model)).model.dtype == torch.float32
