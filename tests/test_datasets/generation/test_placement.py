"""How a model is loaded: its weights, which GPUs a replica gets, how many prompts fit into memory."""

from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, Gemma3TextConfig, GPT2Config, LlamaConfig

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.engines.models import (
    Loaded,
    check_not_offloaded,
    load_model,
    replica_devices,
    weights_placement,
)
from h2htalk_datasets.generation.engines.transformers import TransformersEngine, rows_that_fit


def test_replicas_share_a_node_without_overlap():
    assert [replica_devices(rank, 2, 8) for rank in range(4)] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert replica_devices(0, 8, 8) == list(range(8))
    with pytest.raises(H2HTalkError, match="launch at most 2 processes on this node"):
        replica_devices(2, 4, 8)
    assert replica_devices(3, 2, 2) == [0, 1]  # a task that sees its own GPUs only


def test_a_replica_starts_at_its_own_device(monkeypatch):
    current = []
    gpus = {"is_available": lambda: True, "device_count": lambda: 4, "set_device": current.append}
    for name, value in {**gpus, "mem_get_info": lambda index: (1000 * index, 4000)}.items():
        monkeypatch.setattr(f"torch.cuda.{name}", value)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert weights_placement("cuda:1", 2) == {"device_map": "auto", "max_memory": {2: 1700, 3: 2550}}
    assert current == [2]


def test_weights_that_would_be_read_from_disk_are_refused():
    model = SimpleNamespace(hf_device_map={"model.embed_tokens": 2, "model.layers": 3, "lm_head": 3})
    check_not_offloaded(model, 2)
    model.hf_device_map["lm_head"] = "disk"
    with pytest.raises(H2HTalkError, match="does not fit into the 2 GPUs of a replica; use more"):
        check_not_offloaded(model, 2)


def test_several_devices_need_gpus(tiny_model):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has GPUs")
    with pytest.raises(H2HTalkError, match="--devices-per-replica needs GPUs"):
        load_model(str(tiny_model), devices_per_replica=2)


GIB = 2**30


@pytest.mark.parametrize(
    ("memory", "row_bytes", "rows"),
    [(1, 2, 1), (2, 1, 1), (15, 1, 4), (16, 1, 8), (127, 1, 32), (10_000, 1, 256), (64 * GIB, 1000 * 2**20, 32)],
)
def test_rows_fit_into_half_of_the_memory_and_are_a_power_of_two(memory, row_bytes, rows):
    assert rows_that_fit(memory, row_bytes) == rows


class OnGPUs:
    """What the engine reads of a model that is on two GPUs."""

    device = torch.device("cuda", 0)
    hf_device_map = {"model.layers.0": "cuda:0", "model.layers.1": "cuda:1"}

    config = SimpleNamespace(get_text_config=SimpleNamespace)

    def __init__(self):
        self.generation_config = SimpleNamespace(eos_token_id=1)


@pytest.mark.parametrize(("free", "prefix_bytes"), [(10, 2 * GIB), (30 * GIB, 8 * GIB)])
def test_prefixes_may_use_a_tenth_of_the_gpus_memory_if_it_is_free(free, prefix_bytes, demo, monkeypatch):
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda device: (free, 40 * GIB))
    assert TransformersEngine(Loaded(OnGPUs(), demo.tokenizer, "two GPUs", "0")).prefix_bytes == prefix_bytes


SIZES = {"vocab_size": 64, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
CHECKPOINTS = {
    "llama": LlamaConfig(intermediate_size=16, **SIZES),
    "llama-tied": LlamaConfig(intermediate_size=16, tie_word_embeddings=True, **SIZES),
    "gpt2": GPT2Config(vocab_size=64, n_embd=16, n_layer=2, n_head=2),
    "gemma3": Gemma3TextConfig(intermediate_size=16, num_key_value_heads=1, head_dim=8, **SIZES),
}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_that_lacks_weights_is_refused(name, demo, tmp_path):
    AutoModelForCausalLM.from_config(CHECKPOINTS[name]).save_pretrained(tmp_path)
    demo.tokenizer.save_pretrained(tmp_path)
    load_model(str(tmp_path))
    weights = load_file(tmp_path / "model.safetensors")
    lost = next(key for key in sorted(weights) if ".1." in key)
    save_file(
        {key: value for key, value in weights.items() if key != lost}, tmp_path / "model.safetensors", {"format": "pt"}
    )
    with pytest.raises(H2HTalkError, match=f"cannot load the model .*: 1 of its weights are in no file, .* {lost};"):
        load_model(str(tmp_path))


def test_a_checkpoint_of_another_size_is_refused_in_a_line(demo, tmp_path):
    AutoModelForCausalLM.from_config(CHECKPOINTS["llama"]).save_pretrained(tmp_path)
    demo.tokenizer.save_pretrained(tmp_path)
    LlamaConfig(intermediate_size=24, **SIZES).save_pretrained(tmp_path)
    with pytest.raises(H2HTalkError, match=r"cannot load the model .*of its weights have another shape than"):
        load_model(str(tmp_path))


@pytest.mark.parametrize("damage", [b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", b"", None])
def test_a_damaged_checkpoint_is_refused_in_a_line(damage, demo, tmp_path):
    AutoModelForCausalLM.from_config(CHECKPOINTS["llama"]).save_pretrained(tmp_path)
    demo.tokenizer.save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100] if damage is None else damage)
    with pytest.raises(H2HTalkError, match=r"cannot load the model .*: SafetensorError: "):
        load_model(str(tmp_path))
