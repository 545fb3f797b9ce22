"""How a model is loaded: its weights, which GPUs a replica gets, how many prompts memory holds."""

from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, Gemma3TextConfig, GPT2Config, LlamaConfig

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.engines.models import (
    Loaded,
    _placement,
    _refuse_offloaded,
    load_model,
    replica_devices,
)
from h2htalk_datasets.generation.engines.transformers import TransformersEngine, _power_of_two


def test_replicas_share_a_node_without_overlap():
    assert [replica_devices(rank, 2, 8) for rank in range(4)] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert replica_devices(0, 8, 8) == list(range(8))
    with pytest.raises(H2HTalkError, match="launch at most 2 processes on this node"):
        replica_devices(2, 4, 8)
    assert replica_devices(3, 2, 2) == [0, 1]  # a task that sees its own GPUs only


def test_a_replica_begins_at_its_own_device(monkeypatch):
    current = []
    gpus = {"is_available": lambda: True, "device_count": lambda: 4, "set_device": current.append}
    for name, value in {**gpus, "mem_get_info": lambda index: (1000 * index, 4000)}.items():
        monkeypatch.setattr(f"torch.cuda.{name}", value)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert _placement("cuda:1", 2) == {"device_map": "auto", "max_memory": {2: 1700, 3: 2550}}
    assert current == [2]


def test_weights_that_would_be_read_from_disk_are_refused():
    whole = SimpleNamespace(hf_device_map={"model.embed_tokens": 2, "model.layers": 3, "lm_head": 3})
    _refuse_offloaded(whole, 2)
    whole.hf_device_map["lm_head"] = "disk"
    with pytest.raises(H2HTalkError, match="doesn't fit into the 2 GPUs of a replica; give it more"):
        _refuse_offloaded(whole, 2)


def test_several_devices_need_gpus(tiny_model):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has GPUs")
    with pytest.raises(H2HTalkError, match="--devices-per-replica needs GPUs"):
        load_model(str(tiny_model), devices_per_replica=2)


class OnGPUs:
    """What the engine asks of a model that lies on two GPUs."""

    device = torch.device("cuda", 0)
    hf_device_map = {"model.layers.0": "cuda:0", "model.layers.1": "cuda:1"}

    def __init__(self, weights):
        self.get_memory_footprint = lambda: weights
        self.generation_config = SimpleNamespace(eos_token_id=1)


def test_the_batch_size_does_not_follow_what_others_hold_of_the_memory(demo, monkeypatch):
    sizes, kept = [], []
    for free in (10, 30 * 2**30):
        monkeypatch.setattr("torch.cuda.mem_get_info", lambda device, free=free: (free, 40 * 2**30))
        engine = TransformersEngine(Loaded(OnGPUs(weights=16 * 2**30), demo.tokenizer, "two GPUs", "0"))
        engine._longest, engine._bytes_per_token = 1000, lambda: 2**20
        sizes.append(engine.batch_that_fits())
        kept.append(engine._prefix_bytes)
    assert kept == [2 * 2**30, 8 * 2**30]  # no answer depends on this: a tenth of 80 GiB where it is free
    assert sizes == [32, 32]  # (80 - 16) GiB / 2 / (1000 * 1 MiB) = 32.8


@pytest.mark.parametrize(("rows", "size"), [(0.3, 1), (1, 1), (7.9, 4), (8, 8), (63.9, 32), (5000, 64)])
def test_batch_sizes_are_powers_of_two(rows, size):
    assert _power_of_two(rows) == size


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
    with pytest.raises(H2HTalkError, match=f"can't load the model .*: 1 of its weights are in no file, as {lost};"):
        load_model(str(tmp_path))


def test_a_checkpoint_of_another_size_is_refused_in_a_line(demo, tmp_path):
    AutoModelForCausalLM.from_config(CHECKPOINTS["llama"]).save_pretrained(tmp_path)
    demo.tokenizer.save_pretrained(tmp_path)
    LlamaConfig(intermediate_size=24, **SIZES).save_pretrained(tmp_path)
    with pytest.raises(H2HTalkError, match=r"can't load the model .*of its weights have another shape than its config"):
        load_model(str(tmp_path))


@pytest.mark.parametrize("damage", [b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", b"", None])
def test_a_damaged_checkpoint_is_refused_in_a_line(damage, demo, tmp_path):
    AutoModelForCausalLM.from_config(CHECKPOINTS["llama"]).save_pretrained(tmp_path)
    demo.tokenizer.save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100] if damage is None else damage)
    with pytest.raises(H2HTalkError, match=r"can't load the model .*: SafetensorError: "):
        load_model(str(tmp_path))
