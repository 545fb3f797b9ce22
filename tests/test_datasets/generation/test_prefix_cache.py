"""Prefix reuse gives the tokens that plain generation gives, in every kind of attention it is used for."""

import shutil
from pathlib import Path

import pytest
import torch
from huggingface_hub.constants import HF_HUB_CACHE
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    LlamaConfig,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MllamaForCausalLM,
    MllamaTextConfig,
    Qwen2Config,
    Qwen3Config,
    RwkvConfig,
    RwkvForCausalLM,
)

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation import Prompt
from h2htalk_datasets.generation.engines import prefix_attention
from h2htalk_datasets.generation.engines.models import Loaded, adapter_revision, load_model
from h2htalk_datasets.generation.engines.prefix_attention import attend_to_prefix_once
from h2htalk_datasets.generation.engines.prefix_cache import PrefixCache, can_share, common_prefix
from h2htalk_datasets.generation.engines.transformers import TransformersEngine, warn_no_prefix_reuse

SIZES = {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4}
GQA = {**SIZES, "num_key_value_heads": 2, "head_dim": 16, "initializer_range": 0.3}
WINDOW = 24  # far shorter than the prompts

CONFIGS = {
    "llama": lambda n: LlamaConfig(vocab_size=n, **GQA),
    "qwen2": lambda n: Qwen2Config(vocab_size=n, **{k: v for k, v in GQA.items() if k != "head_dim"}),
    "qwen2-sliding": lambda n: Qwen2Config(
        vocab_size=n,
        use_sliding_window=True,
        sliding_window=WINDOW,
        max_window_layers=2,
        num_key_value_heads=4,
        **SIZES,
    ),
    "qwen3": lambda n: Qwen3Config(vocab_size=n, **GQA),
    "gemma2": lambda n: Gemma2Config(vocab_size=n, sliding_window=WINDOW, **GQA),
    "gemma3": lambda n: Gemma3TextConfig(
        vocab_size=n,
        sliding_window=WINDOW,
        layer_types=["sliding_attention", "full_attention"] * 2,
        tie_word_embeddings=False,
        **GQA,
    ),
    "mistral-sliding": lambda n: MistralConfig(vocab_size=n, sliding_window=WINDOW, **GQA),
    "gpt2": lambda n: GPT2Config(vocab_size=n, n_embd=48, n_layer=3, n_head=4, initializer_range=0.3),
}

SAP = "Be kind, be plain, be there; say what is so, and let the other choose. " * 3
PERSONAS = {
    "ana": "Your name is Ana. You mend clocks in a shop by the river. ",
    "bo": "You are Bo, who drives night buses. ",
}
TASKS = {
    "DialogueBase": "Answer in one line, as a friend would.",
    "ItineraryMiddle": "Tell the day in timed lines, in order.",
}
TURNS = [
    "Hello.",
    "Did you see the rain last night? It came in under the door and soaked the mat.",
    "I can't sleep again.",
]


def prompts():
    """Two relationships, two tasks, user messages of different lengths, different limits of new tokens."""
    prompts = []
    for who, persona in PERSONAS.items():
        for task, rule in TASKS.items():
            for number, turn in enumerate(TURNS):
                messages = ({"role": "system", "content": SAP + persona + rule}, {"role": "user", "content": turn})
                prompts.append(Prompt(f"{who}-{task}-{number}", task, who, messages, 9 + number))
    return prompts


def loaded_from(config, tokenizer):
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(config).eval()
    model.generation_config.eos_token_id = None
    return Loaded(model, tokenizer, "tiny", "0")


def plain(loaded, prompt):
    """The tokens of `model.generate` for one prompt alone: no padding, no cache of ours."""
    text = loaded.tokenizer.apply_chat_template(list(prompt.messages), tokenize=False, add_generation_prompt=True)
    ids = loaded.tokenizer(text, add_special_tokens=False, return_tensors="pt")
    with torch.inference_mode():
        out = loaded.model.generate(**ids, max_new_tokens=prompt.max_new_tokens, do_sample=False)
    return loaded.tokenizer.decode(out[0, ids["input_ids"].shape[1] :], skip_special_tokens=True).strip()


# Models whose decoding step reads the prefix once for all rows; softcaps and windows use torch's attention.
ONCE = {"llama", "qwen2", "qwen3", "gpt2"}


@pytest.mark.parametrize("once", [False, True], ids=["general", "once"])
@pytest.mark.parametrize("name", CONFIGS)
def test_tokens_are_those_of_plain_generation(name, once, demo, monkeypatch):
    loaded = loaded_from(CONFIGS[name](len(demo.tokenizer)), demo.tokenizer)
    all_prompts, used = prompts(), []
    expected = {prompt.id: plain(loaded, prompt) for prompt in all_prompts}
    if once:
        attend_to_prefix_once(loaded.model)
        original = prefix_attention.heads_first
        monkeypatch.setattr(prefix_attention, "heads_first", lambda tensor: used.append(1) or original(tensor))
    engine = TransformersEngine(loaded)
    assert len(set(expected.values())) > len(all_prompts) / 2  # different prompts have different answers
    engine.prepare(all_prompts)
    assert engine.prefixes is not None
    for persona in PERSONAS:
        mixed = [prompt for prompt in all_prompts if prompt.group == persona]
        for batch in (mixed, mixed[:3], mixed[1:2]):  # two tasks, one task, one prompt
            assert [a.text for a in engine.answer(batch, 0)] == [expected[p.id] for p in batch]
    assert bool(used) == (once and name in ONCE)


def test_the_attention_of_a_step_is_torchs(demo):
    """The logits of each step are equal up to rounding, with the same cache and the same tokens."""
    rows = [[*range(1, 90), 7, 8, 9, 10], [*range(1, 90), 300], [*range(1, 90), 5, 6]]
    ids = torch.tensor([row if len(row) == 93 else [0] * (93 - len(row)) + row for row in rows])
    mask = (ids > 0).long()
    logits = []
    for once in (False, True):
        model = loaded_from(CONFIGS["llama"](len(demo.tokenizer)), demo.tokenizer).model
        if once:
            attend_to_prefix_once(model)
        with torch.inference_mode():
            cache = PrefixCache(model, max_bytes=10**9).build_cache(rows, [89], 100)
            options = {"past_key_values": cache, "return_dict_in_generate": True, "output_logits": True}
            out = model.generate(ids, attention_mask=mask, max_new_tokens=6, do_sample=False, **options)
        logits.append(torch.stack(out.logits))
    assert not torch.equal(*logits)  # sums in another order
    torch.testing.assert_close(*logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("attention", [None, "sdpa_prefix_once", "sdpa"])
def test_the_attention_of_a_manifest_can_be_requested(attention, tiny_model):
    engine = TransformersEngine(load_model(str(tiny_model), attention=attention))
    assert engine.identity()["attention"] == (attention or "sdpa_prefix_once")


NOTHING_SHARED = {
    "mamba": lambda n: MambaForCausalLM(
        MambaConfig(vocab_size=n, hidden_size=32, num_hidden_layers=2, state_size=4),
    ),
    "rwkv": lambda n: RwkvForCausalLM(  # does not accept a cache
        RwkvConfig(vocab_size=n, hidden_size=32, num_hidden_layers=2),
    ),
    "mllama": lambda n: MllamaForCausalLM(  # one of its layers caches nothing without an image
        MllamaTextConfig(vocab_size=n, cross_attention_layers=[1], pad_token_id=0, num_key_value_heads=2, **SIZES),
    ),
}


@pytest.mark.parametrize("name", NOTHING_SHARED)
def test_where_nothing_can_be_shared_generation_is_plain_and_warns_once(name, demo, caplog):
    torch.manual_seed(3)
    model = NOTHING_SHARED[name](len(demo.tokenizer)).eval()
    model.generation_config.eos_token_id = None
    loaded = Loaded(model, demo.tokenizer, "tiny", "0")
    warn_no_prefix_reuse.cache_clear()
    few = prompts()[:3]
    for _ in range(2):
        engine = TransformersEngine(loaded)
        engine.prepare(few)
        assert engine.prefixes is None
        assert [a.text for a in engine.answer(few[:1], 0)] == [plain(loaded, few[0])]
    assert [record.message for record in caplog.records].count(
        "this model's cache cannot be shared between prompts; generating without prefix reuse"
    ) == 1


class ShiftedPrefixes(PrefixCache):
    """Puts every token of a prefix one cell too late."""

    def build_cache(self, *args):
        cache = super().build_cache(*args)
        for layer in cache.layers:
            layer.keys.copy_(layer.keys.roll(1, dims=2))
            layer.values.copy_(layer.values.roll(1, dims=2))
        return cache


def test_a_prefix_that_changes_the_logits_is_not_shared(demo):
    loaded = loaded_from(CONFIGS["llama"](len(demo.tokenizer)), demo.tokenizer)
    assert can_share(loaded.model, [5, 6, 7])
    assert not can_share(loaded.model, [5, 6, 7], ShiftedPrefixes)


class Counted:
    """A model that counts the tokens it computes outside of `generate`."""

    def __init__(self, model):
        self._model, self.device, self.tokens = model, model.device, 0

    def __call__(self, ids, **options):
        self.tokens += ids.shape[1]
        return self._model(ids, **options)


def test_each_level_is_computed_once_from_the_one_before_it(demo):
    loaded = loaded_from(CONFIGS["llama"](len(demo.tokenizer)), demo.tokenizer)
    counted = Counted(loaded.model)
    cache = PrefixCache(counted, max_bytes=10**9)
    one = [list(range(1, 101)), [*range(1, 99), 7]]
    other = [[*range(1, 61), 9, *range(300, 340)], [*range(1, 61), 9, *range(300, 330), 5]]
    with torch.inference_mode():
        assert cache.build_cache(one, [40, 98], 120).get_seq_length() == 98
        assert counted.tokens == 98
        cache.build_cache(one, [40, 98], 120)
        assert counted.tokens == 98  # cached
        cache.build_cache(other, [40, 60, 91], 120)
        assert counted.tokens == 98 + 51  # 40 to 60 to 91; the first 40 are shared
        assert cache.build_cache(one, [3], 120) is None  # too short
        assert cache.build_cache(one, [3, 40], 120, batch_prefix_len=98).get_seq_length() == 98
        assert counted.tokens == 98 + 51  # cached before
        third = [[*range(1, 41), *range(400, 460)]] * 2
        for computed in (50, 100):
            assert cache.build_cache(third, [40], 120, batch_prefix_len=90).get_seq_length() == 90
            assert counted.tokens == 98 + 51 + computed  # the prefix of one batch is not cached


def test_the_least_recently_used_are_dropped(demo):
    loaded = loaded_from(CONFIGS["llama"](len(demo.tokenizer)), demo.tokenizer)
    counted = Counted(loaded.model)
    one_prefix = 50 * 4 * 2 * 2 * 16 * 4  # tokens, layers, keys and values, heads, width, bytes
    cache = PrefixCache(counted, max_bytes=2 * one_prefix)
    rows = [[list(range(start, start + 51))] for start in (1, 100, 200)]
    with torch.inference_mode():
        for index, computed in ((0, 1), (1, 2), (0, 2), (2, 3), (0, 3), (1, 4)):
            cache.build_cache(rows[index], [50], 60)
            assert counted.tokens == 50 * computed


def test_common_prefix_leaves_each_row_a_token():
    assert common_prefix([[1, 2, 3], [1, 2, 3]]) == 2
    assert common_prefix([[1, 2, 3], [1, 2], [1, 5, 6, 7]]) == 1
    assert common_prefix([[1], [2]]) == 0


@pytest.fixture
def engine(demo):
    loaded = loaded_from(CONFIGS["llama"](len(demo.tokenizer)), demo.tokenizer)
    engine = TransformersEngine(loaded)
    engine.prepare(prompts())
    engine.model = loaded.model
    return engine


def fail_above(engine, rows, error):
    """Let the model's `generate` raise for more than `rows` prompts; return the numbers of prompts it gets."""
    sizes, generate = [], engine.model.generate

    def limited(input_ids, **options):
        sizes.append(len(input_ids))
        if len(input_ids) > rows:
            raise error
        return generate(input_ids=input_ids, **options)

    engine.model.generate = limited
    return sizes


def test_out_of_memory_halves_the_batch_from_then_on(engine):
    batch = prompts()[:6]
    expected = engine.answer(batch, 0)
    sizes = fail_above(engine, 2, torch.OutOfMemoryError("CUDA out of memory."))
    assert engine.answer(batch, 0) == expected
    assert engine.answer(batch, 0) == expected
    assert sizes == [6, 3] + [1] * 12


def test_out_of_memory_on_one_prompt_is_reported(engine):
    fail_above(engine, 0, RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"))
    with pytest.raises(H2HTalkError, match=r"out of memory on one prompt \(ana-DialogueBase-0, \d+ tokens\)"):
        engine.answer(prompts()[:2], 0)


def test_on_one_prompt_the_cached_prefixes_are_dropped_first(engine):
    prompt, generate = prompts()[:1], engine.model.generate
    expected = engine.answer(prompt, 0)
    assert len(engine.prefixes) > 0

    def needs_their_memory(**options):
        if len(engine.prefixes):
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return generate(**options)

    engine.model.generate = needs_their_memory
    for _ in range(2):
        assert engine.answer(prompt, 0) == expected
    assert len(engine.prefixes) == 0


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("Allocation on device 0 would exceed allowed memory."),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
    ids=["allocator", "driver", "cublas"],
)
def test_out_of_memory_has_other_messages_too(engine, error):
    sizes = fail_above(engine, 1, error)
    engine.answer(prompts()[:2], 0)
    assert sizes == [2, 1, 1]


def test_other_errors_are_raised(engine):
    fail_above(engine, 0, RuntimeError("shapes differ"))
    with pytest.raises(RuntimeError, match="shapes differ"):
        engine.answer(prompts()[:2], 0)


def test_adapters_change_the_answers_and_are_named(demo, tmp_path):
    from peft import LoraConfig, get_peft_model

    base = loaded_from(CONFIGS["llama"](len(demo.tokenizer)), demo.tokenizer)
    base.model.save_pretrained(tmp_path / "base")
    demo.tokenizer.save_pretrained(tmp_path / "base")
    lora = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    get_peft_model(base.model, lora).save_pretrained(tmp_path / "adapter")
    commit, on_hub = "5a1e" * 10, Path(HF_HUB_CACHE) / "models--team--lora"  # as if it had been downloaded before
    shutil.copytree(tmp_path / "adapter", on_hub / "snapshots" / commit)
    (on_hub / "refs").mkdir()
    (on_hub / "refs" / "main").write_text(commit)
    few = prompts()[:3]
    texts = []
    for adapter in (None, str(tmp_path / "adapter"), "team/lora"):
        loaded = load_model(str(tmp_path / "base"), adapter=adapter)
        engine = TransformersEngine(loaded)
        engine.prepare(few)
        texts.append([answer.text for answer in engine.answer(few, 0)])
    assert texts[0] != texts[1] == texts[2]
    assert engine.identity()["adapter"] == f"team/lora@{commit}"
    digest, file = adapter_revision(str(tmp_path / "adapter")), tmp_path / "adapter" / "adapter_model.safetensors"
    save_file({name: 2 * weight for name, weight in load_file(file).items()}, file)  # trained further
    assert digest != adapter_revision(str(tmp_path / "adapter"))
    with pytest.raises(H2HTalkError, match="cannot load the adapter 'nobody/nothing'"):
        load_model(str(tmp_path / "base"), adapter="nobody/nothing")
