"""Shared parts: a cache of its own without the Hub, the shipped records, and small real models."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

# Before any Hugging Face library is imported: no Hub, a cache that no earlier run has filled.
_HOME = tempfile.mkdtemp(prefix="h2htalk-tests-")
os.environ |= {"HF_HOME": _HOME, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
os.environ |= {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
for _name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_DATASETS_CACHE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
    os.environ.pop(_name, None)

import pytest
from helpers.paths import SHARED
from hypothesis import settings as examples

from h2htalk_datasets.corpus.sources import read_sources, source_files
from h2htalk_datasets.schema import Record

# A stall of the machine is no fault, and a text that nobody has tried before must not refuse an unrelated change.
examples.register_profile("reproducible", deadline=None, derandomize=True)
examples.load_profile("reproducible")


def pytest_configure():
    """Keep the converted demo model next to the installed packages: half a gigabyte, the same for all test runs."""
    models = Path(sys.prefix, "h2htalk-test-models")
    models.mkdir(exist_ok=True)
    Path(_HOME, "h2htalk").mkdir()
    Path(_HOME, "h2htalk", "models").symlink_to(models)


def pytest_unconfigure():
    """Remove the cache."""
    shutil.rmtree(_HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def records() -> list[Record]:
    """The records of the first three relationships, without messages."""
    first_three, errors = read_sources(source_files()[:3])
    assert not errors
    return first_three


@pytest.fixture(scope="session")
def chinese_records() -> list[Record]:
    """The records of the first Chinese relationship, without messages."""
    first, errors = read_sources(source_files(language="zh")[:1], "zh")
    assert not errors
    return first


@pytest.fixture(scope="session")
def release_folder() -> Path:
    """The published references, where a developer has them; they are never part of the project."""
    folder = SHARED / "authors-release"
    if not folder.exists():
        pytest.skip("the authors' published references are not on this machine")
    return folder


@pytest.fixture(scope="session")
def demo():
    """The demo model, a real chat model of 135M parameters."""
    from h2htalk_datasets.generation.engines.models import load_model

    return load_model("demo")


@pytest.fixture(scope="session")
def tiny_model(demo, tmp_path_factory) -> Path:
    """A folder with a Llama of random weights and the demo model's tokenizer: answers nonsense, in no time."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(7)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(demo.tokenizer), num_key_value_heads=2, **sizes))
    model.generation_config.eos_token_id = demo.tokenizer.eos_token_id
    folder = tmp_path_factory.mktemp("tiny") / "model"
    model.save_pretrained(folder)
    demo.tokenizer.save_pretrained(folder)
    return folder
