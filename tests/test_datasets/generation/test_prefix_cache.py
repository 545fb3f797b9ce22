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
from h2htalk_datasets.generation.engines import prefix_attention, prefix_cache
from h2htalk_datasets.generation.engines.models import Loaded, _adapter_revision, load_model
from h2htalk_datasets.generation.engines.prefix_attention import attend_to_prefix_once
from h2htalk_datasets.generation.engines.prefix_cache import PrefixCache, can_share, common_prefix
from h2htalk_datasets.generation.engines.transformers import TransformersEngine, _say_that_nothing_is_shared

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
    """Two relationships, two tasks, own parts of different lengths, rooms of their own."""
    made = []
    for who, persona in PERSONAS.items():
        for task, rule in TASKS.items():
            for number, turn in enumerate(TURNS):
                messages = ({"role": "system", "content": SAP + persona + rule}, {"role": "user", "content": turn})
                made.append(Prompt(f"{who}-{task}-{number}", task, who, messages, 9 + number))
    return made


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


# Where a step's attention reads the prefix once for all rows: softcaps and windows go the general way.
ONCE = {"llama", "qwen2", "qwen3", "gpt2"}


@pytest.mark.parametrize("once", [False, True], ids=["general", "once"])
@pytest.mark.parametrize("name", CONFIGS)
def test_tokens_are_those_of_plain_generation(name, once, demo, monkeypatch):
    loaded = loaded_from(CONFIGS[name](len(demo.tokenizer)), demo.tokenizer)
    asked, used = prompts(), []
    expected = {prompt.id: plain(loaded, prompt) for prompt in asked}
    if once:
        attend_to_prefix_once(loaded.model)
        real = prefix_attention._by_head
        monkeypatch.setattr(prefix_attention, "_by_head", lambda tensor: used.append(1) or real(tensor))
    engine = TransformersEngine(loaded)
    assert len(set(expected.values())) > len(asked) / 2  # the model tells prompts apart
    engine.prepare(asked)
    assert engine._prefixes is not None
    for who in PERSONAS:
        mixed = [prompt for prompt in asked if prompt.group == who]
        for batch in (mixed, mixed[:3], mixed[1:2]):  # two tasks, one task, one prompt
            assert [a.text for a in engine.answer(batch, 0)] == [expected[p.id] for p in batch]
    assert bool(used) == (once and name in ONCE)


def test_a_step_s_attention_is_torch_s(demo):
    """Logits of each step, to rounding, with the same cache and the same tokens."""
    rows = [[*range(1, 90), 7, 8, 9, 10], [*range(1, 90), 300], [*range(1, 90), 5, 6]]
    ids = torch.tensor([row if len(row) == 93 else [0] * (93 - len(row)) + row for row in rows])
    mask = (ids > 0).long()
    logits = []
    for once in (False, True):
        model = loaded_from(CONFIGS["llama"](len(demo.tokenizer)), demo.tokenizer).model
        if once:
            attend_to_prefix_once(model)
        with torch.inference_mode():
            cache = PrefixCache(model, limit=10**9).under(rows, [89], 100)
            options = {"past_key_values": cache, "return_dict_in_generate": True, "output_logits": True}
            out = model.generate(ids, attention_mask=mask, max_new_tokens=6, do_sample=False, **options)
        logits.append(torch.stack(out.logits))
    assert not torch.equal(*logits)  # another order of sums
    torch.testing.assert_close(*logits, rtol=1e-4, atol=1e-4)


def test_what_a_manifest_names_can_be_asked_for(tiny_model):
    def named(**asked):
        return TransformersEngine(load_model(str(tiny_model), **asked)).identity()["attention"]

    assert (named(), named(attention="sdpa_prefix_once"), named(attention="sdpa")) == (
        "sdpa_prefix_once",
        "sdpa_prefix_once",
        "sdpa",
    )


NOTHING_SHARED = {
    "mamba": lambda n: MambaForCausalLM(
        MambaConfig(vocab_size=n, hidden_size=32, num_hidden_layers=2, state_size=4),
    ),
    "rwkv": lambda n: RwkvForCausalLM(  # takes no cache of ours
        RwkvConfig(vocab_size=n, hidden_size=32, num_hidden_layers=2),
    ),
    "mllama": lambda n: MllamaForCausalLM(  # without an image a layer of it keeps nothing
        MllamaTextConfig(vocab_size=n, cross_attention_layers=[1], pad_token_id=0, num_key_value_heads=2, **SIZES),
    ),
}


@pytest.mark.parametrize("name", NOTHING_SHARED)
def test_where_nothing_can_be_shared_generation_is_plain_and_says_so_once(name, demo, caplog):
    torch.manual_seed(3)
    model = NOTHING_SHARED[name](len(demo.tokenizer)).eval()
    model.generation_config.eos_token_id = None
    loaded = Loaded(model, demo.tokenizer, "tiny", "0")
    _say_that_nothing_is_shared.cache_clear()
    asked = prompts()[:3]
    for _ in range(2):
        engine = TransformersEngine(loaded)
        engine.prepare(asked)
        assert engine._prefixes is None
        assert [a.text for a in engine.answer(asked[:1], 0)] == [plain(loaded, asked[0])]
    assert [record.message for record in caplog.records].count(
        "this architecture's cache can't be shared between prompts; generating without prefix reuse"
    ) == 1


def test_a_prefix_that_changes_the_logits_is_not_laid(demo, monkeypatch):
    loaded = loaded_from(CONFIGS["llama"](len(demo.tokenizer)), demo.tokenizer)
    assert can_share(loaded.model, [5, 6, 7])
    lay = prefix_cache._lay
    monkeypatch.setattr(prefix_cache, "_lay", lambda *asked: lay(*asked).roll(1, dims=2))  # a token too late
    assert not can_share(loaded.model, [5, 6, 7])


class Counted:
    """A model that counts the tokens it is given outside of `generate`."""

    def __init__(self, model):
        self._model, self.device, self.tokens = model, model.device, 0

    def __call__(self, ids, **options):
        self.tokens += ids.shape[1]
        return self._model(ids, **options)


def test_each_level_is_computed_once_from_the_one_before_it(demo):
    loaded = loaded_from(CONFIGS["llama"](len(demo.tokenizer)), demo.tokenizer)
    counted = Counted(loaded.model)
    cache = PrefixCache(counted, limit=10**9)
    one = [list(range(1, 101)), [*range(1, 99), 7]]
    other = [[*range(1, 61), 9, *range(300, 340)], [*range(1, 61), 9, *range(300, 330), 5]]
    with torch.inference_mode():
        assert cache.under(one, [40, 98], 120).get_seq_length() == 98
        assert counted.tokens == 98
        cache.under(one, [40, 98], 120)
        assert counted.tokens == 98  # kept
        cache.under(other, [40, 60, 91], 120)
        assert counted.tokens == 98 + 51  # 40 to 60 to 91; the first 40 are shared
        assert cache.under(one, [3], 120) is None  # not worth its while
        assert cache.under(one, [3, 40], 120, own=98).get_seq_length() == 98
        assert counted.tokens == 98 + 51  # what was kept is found
        third = [[*range(1, 41), *range(400, 460)]] * 2
        for computed in (50, 100):
            assert cache.under(third, [40], 120, own=90).get_seq_length() == 90
            assert counted.tokens == 98 + 51 + computed  # the rows' own part is not kept


def test_the_least_recently_used_are_dropped(demo):
    loaded = loaded_from(CONFIGS["llama"](len(demo.tokenizer)), demo.tokenizer)
    counted = Counted(loaded.model)
    one_prefix = 50 * 4 * 2 * 2 * 16 * 4  # tokens, layers, keys and values, heads, width, bytes
    cache = PrefixCache(counted, limit=2 * one_prefix)
    rows = [[list(range(start, start + 51))] for start in (1, 100, 200)]
    with torch.inference_mode():
        for which, computed in ((0, 1), (1, 2), (0, 2), (2, 3), (0, 3), (1, 4)):
            cache.under(rows[which], [50], 60)
            assert counted.tokens == 50 * computed


def test_common_prefix_leaves_each_row_a_token():
    assert common_prefix([[1, 2, 3], [1, 2, 3]]) == 2
    assert common_prefix([[1, 2, 3], [1, 2], [1, 5, 6, 7]]) == 1
    assert common_prefix([[1], [2]]) == 0


def fails_above(engine, rows, error):
    """Let the engine's `_generate` raise where it is given more than `rows` prompts; return the sizes it was given."""
    sizes, real = [], engine._generate

    def generate(prompts, seed):
        sizes.append(len(prompts))
        if len(prompts) > rows:
            raise error
        return real(prompts, seed)

    engine._generate = generate
    return sizes


def test_out_of_memory_halves_the_batch_and_remembers(demo):
    loaded = loaded_from(CONFIGS["llama"](len(demo.tokenizer)), demo.tokenizer)
    engine, asked = TransformersEngine(loaded), prompts()[:6]
    engine.prepare(asked)
    whole = engine.answer(asked, 0)
    sizes = fails_above(engine, 2, torch.OutOfMemoryError("CUDA out of memory."))
    assert engine.answer(asked, 0) == whole
    assert engine.answer(asked, 0) == whole
    assert sizes == [6, 3] + [1] * 12


def test_out_of_memory_on_one_prompt_is_said_plainly(demo):
    loaded = loaded_from(CONFIGS["llama"](len(demo.tokenizer)), demo.tokenizer)
    engine, asked = TransformersEngine(loaded), prompts()[:2]
    engine.prepare(asked)
    fails_above(engine, 0, RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"))
    with pytest.raises(H2HTalkError, match=r"out of memory on one prompt \(ana-DialogueBase-0, \d+ tokens\)"):
        engine.answer(asked, 0)


def test_on_one_prompt_the_kept_prefixes_are_given_up_first(demo):
    loaded = loaded_from(CONFIGS["llama"](len(demo.tokenizer)), demo.tokenizer)
    engine, asked = TransformersEngine(loaded), prompts()[:1]
    engine.prepare(prompts())
    whole, real = engine.answer(asked, 0), engine._generate
    assert engine._prefixes._kept

    def generate(*batch):
        if engine._prefixes._kept:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return real(*batch)

    engine._generate = generate
    for _ in range(2):
        assert engine.answer(asked, 0) == whole
    assert not engine._prefixes._kept


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("Allocation on device 0 would exceed allowed memory."),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
    ids=["allocator", "driver", "cublas"],
)
def test_memory_runs_out_in_other_words_too(demo, error):
    loaded = loaded_from(CONFIGS["llama"](len(demo.tokenizer)), demo.tokenizer)
    engine, asked = TransformersEngine(loaded), prompts()[:2]
    engine.prepare(asked)
    sizes = fails_above(engine, 1, error)
    engine.answer(asked, 0)
    assert sizes == [2, 1, 1]


def test_other_errors_are_not_taken_for_memory(demo):
    loaded = loaded_from(CONFIGS["llama"](len(demo.tokenizer)), demo.tokenizer)
    engine, asked = TransformersEngine(loaded), prompts()[:2]
    engine.prepare(asked)
    fails_above(engine, 0, RuntimeError("shapes differ"))
    with pytest.raises(RuntimeError, match="shapes differ"):
        engine.answer(asked, 0)


def test_adapters_change_the_answers_and_are_named(demo, tmp_path):
    from peft import LoraConfig, get_peft_model

    base = loaded_from(CONFIGS["llama"](len(demo.tokenizer)), demo.tokenizer)
    base.model.save_pretrained(tmp_path / "base")
    demo.tokenizer.save_pretrained(tmp_path / "base")
    lora = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    get_peft_model(base.model, lora).save_pretrained(tmp_path / "adapter")
    commit, on_hub = "5a1e" * 10, Path(HF_HUB_CACHE) / "models--team--lora"  # as if it had been fetched before
    shutil.copytree(tmp_path / "adapter", on_hub / "snapshots" / commit)
    (on_hub / "refs").mkdir()
    (on_hub / "refs" / "main").write_text(commit)
    asked = prompts()[:3]
    texts = []
    for adapter in (None, str(tmp_path / "adapter"), "team/lora"):
        loaded = load_model(str(tmp_path / "base"), adapter=adapter)
        engine = TransformersEngine(loaded)
        engine.prepare(asked)
        texts.append([answer.text for answer in engine.answer(asked, 0)])
    assert texts[0] != texts[1] == texts[2]
    assert engine.identity()["adapter"] == f"team/lora@{commit}"
    digest, file = _adapter_revision(str(tmp_path / "adapter")), tmp_path / "adapter" / "adapter_model.safetensors"
    save_file({name: 2 * weight for name, weight in load_file(file).items()}, file)  # trained further
    assert digest != _adapter_revision(str(tmp_path / "adapter"))
    with pytest.raises(H2HTalkError, match="can't put the adapter 'nobody/nothing' on"):
        load_model(str(tmp_path / "base"), adapter="nobody/nothing")
