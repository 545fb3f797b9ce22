"""Rows over a shared prefix give the tokens of plain generation, in every kind of attention, whoever else decodes."""

import copy
import random
import shutil
from pathlib import Path

import pytest
import torch
from helpers.plain_generation import plain_answer
from huggingface_hub.constants import HF_HUB_CACHE
from safetensors.torch import load_file, save_file
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GlmConfig,
    GPT2Config,
    LlamaConfig,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MllamaForCausalLM,
    MllamaTextConfig,
    Phi3Config,
    PhiConfig,
    Qwen2Config,
    Qwen3Config,
    RwkvConfig,
    RwkvForCausalLM,
)

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation import Prompt
from h2htalk_datasets.generation.engines import row_check
from h2htalk_datasets.generation.engines.decoder import Decoder
from h2htalk_datasets.generation.engines.models import Loaded, adapter_revision, load_model
from h2htalk_datasets.generation.engines.prefixes import PrefixCache, common_prefix, extend, nested_prefixes
from h2htalk_datasets.generation.engines.row_cache import row_attention
from h2htalk_datasets.generation.engines.row_check import decodes_in_rows
from h2htalk_datasets.generation.engines.sampling import Sampling
from h2htalk_datasets.generation.engines.transformers import TransformersEngine, warn_plain_generation
from h2htalk_datasets.generation.requests import chosen_rows, prompt_of
from h2htalk_datasets.prompts import chat_text

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
    "phi": lambda n: PhiConfig(vocab_size=n, **{k: v for k, v in GQA.items() if k != "head_dim"}),
    "phi3": lambda n: Phi3Config(vocab_size=n, pad_token_id=0, **{k: v for k, v in GQA.items() if k != "head_dim"}),
    "glm": lambda n: GlmConfig(vocab_size=n, pad_token_id=0, **GQA),
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


@pytest.mark.parametrize("name", CONFIGS)
def test_tokens_are_those_of_plain_generation(name, demo):
    loaded = loaded_from(CONFIGS[name](len(demo.tokenizer)), demo.tokenizer)
    all_prompts = prompts()
    expected = [plain_answer(loaded, prompt) for prompt in all_prompts]
    assert len(set(expected)) > len(all_prompts) / 2  # different prompts have different answers
    engine = TransformersEngine(loaded, rows=5)
    engine.prepare(all_prompts)
    assert engine.prefixes is not None
    assert [answer.text for answer in engine.answer(all_prompts, 0)] == expected


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_answer_does_not_depend_on_the_rows_the_order_or_the_other_prompts(demo, temperature):
    loaded = loaded_from(CONFIGS["qwen2"](len(demo.tokenizer)), demo.tokenizer)
    all_prompts = prompts()

    def answers(rows, chosen):
        engine = TransformersEngine(loaded, rows=rows, temperature=temperature, top_p=0.9)
        engine.prepare(all_prompts)
        return {prompt.id: answer for prompt, answer in engine.stream(iter(chosen), seed=3)}

    expected = answers(4, all_prompts)
    assert len(expected) == len(all_prompts)
    for rows in (1, 3, 12):
        assert answers(rows, all_prompts) == expected
    shuffled = random.Random(1).sample(all_prompts, len(all_prompts))
    assert answers(3, shuffled) == expected
    some = all_prompts[2:9:3]
    assert answers(2, some) == {prompt.id: expected[prompt.id] for prompt in some}


class Recorder(TorchDispatchMode):
    """Notes every operation with the shapes of its results, and what would make the CPU wait for a GPU."""

    WAITING = ("_local_scalar_dense", "nonzero", "item", "is_nonzero", "_to_copy", "masked_select", "unique")

    def __init__(self):
        super().__init__()
        self.operations, self.waiting = [], []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        tensors = result if isinstance(result, (list, tuple)) else [result]
        self.operations.append((name, [tuple(t.shape) for t in tensors if isinstance(t, torch.Tensor)]))
        if name in self.WAITING and not (name == "_to_copy" and kwargs.get("device") is None):
            self.waiting.append(name)
        return result


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_step_could_be_captured(demo, temperature):
    """Every step has the same operations with the same shapes, and none that would make the CPU wait."""
    loaded = loaded_from(CONFIGS["mistral-sliding"](len(demo.tokenizer)), demo.tokenizer)
    engine = TransformersEngine(loaded, rows=3, temperature=temperature, top_p=0.9)
    all_prompts = prompts()[:4]
    engine.prepare(all_prompts)
    engine.answer(all_prompts[:1], 0)
    recorded = []
    with torch.inference_mode(), row_attention(loaded.model):
        texts = [chat_text(prompt.messages, loaded.tokenizer) for prompt in all_prompts]
        tokens = [loaded.tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
        prefix = engine.prefixes.layers(tokens[0], [common_prefix(tokens)])
        choose = Sampling(temperature, 0.9).choose if temperature else None
        decoder = Decoder(loaded.model, prefix, 3, 128, 8, [0], choose)
        decoder.fill([0, 2], extend(loaded.model, prefix, [t[:-1] for t in tokens[:2]]), tokens[:2], [5, 8], [1, 2])
        for _ in range(3):
            with Recorder() as recorder:
                decoder.step()
            recorded.append(recorder)
        decoder.fill([0], extend(loaded.model, prefix, [tokens[3][:-1]]), [tokens[3]], [6], [4])
        with Recorder() as recorder:
            decoder.step()
    assert len(recorder.operations) > 100
    for earlier in recorded:
        assert earlier.operations == recorder.operations
        assert earlier.waiting == []


def test_the_attention_of_a_manifest_can_be_requested(tiny_model):
    for attention in (None, "sdpa", "sdpa_prefix_once"):  # the last one stands in older manifests
        engine = TransformersEngine(load_model(str(tiny_model), attention=attention))
        engine.prepare(prompts()[:2])
        assert engine.identity()["attention"] == (attention or "sdpa")
        assert engine.prefixes is not None


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
    warn_plain_generation.cache_clear()
    few = prompts()[:3]
    for _ in range(2):
        engine = TransformersEngine(loaded)
        engine.prepare(few)
        assert engine.prefixes is None
        assert [a.text for a in engine.answer(few[:1], 0)] == [plain_answer(loaded, few[0])]
    assert [record.message for record in caplog.records].count(
        "this model cannot decode in rows over a shared prefix; generating batch by batch, which is slower"
    ) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_that_gives_other_tokens_in_rows_generates_plainly(demo, dtype, monkeypatch):
    model = copy.deepcopy(demo.model).to(dtype)
    real = [prompt_of(row, sap=True) for row in chosen_rows("DialogueBase,RecollectionSynthesis", 1)]
    rows = [demo.tokenizer(chat_text(p.messages, demo.tokenizer), add_special_tokens=False)["input_ids"] for p in real]
    assert decodes_in_rows(model, rows)
    original = row_check.extend

    def shifted(*arguments):
        """Put every token one cell too late."""
        return [(keys.roll(1, dims=2), values.roll(1, dims=2)) for keys, values in original(*arguments)]

    monkeypatch.setattr(row_check, "extend", shifted)
    assert not decodes_in_rows(model, rows)


class Counted:
    """A model that counts the tokens it computes outside of `generate`."""

    def __init__(self, model):
        self._model, self.device, self.tokens = model, model.device, 0

    def __call__(self, ids, **options):
        self.tokens += ids.shape[1]
        return self._model(ids, **options)


def test_each_prefix_is_computed_once_from_the_one_before_it(demo):
    loaded = loaded_from(CONFIGS["llama"](len(demo.tokenizer)), demo.tokenizer)
    counted = Counted(loaded.model)
    cache = PrefixCache(counted, max_bytes=10**9)
    one, other = list(range(1, 101)), [*range(1, 61), 9, *range(300, 340)]
    with torch.inference_mode():
        assert cache.layers(one, [40, 98])[0][0].shape[2] == 98
        assert counted.tokens == 98
        cache.layers(one, [40, 98])
        assert counted.tokens == 98  # cached
        cache.layers(other, [40, 60])
        assert counted.tokens == 98 + 20  # the first 40 are shared


def test_the_least_recently_used_are_dropped(demo):
    loaded = loaded_from(CONFIGS["llama"](len(demo.tokenizer)), demo.tokenizer)
    counted = Counted(loaded.model)
    one_prefix = 50 * 4 * 2 * 2 * 16 * 4  # tokens, layers, keys and values, heads, width, bytes
    cache = PrefixCache(counted, max_bytes=2 * one_prefix)
    rows = [list(range(start, start + 51)) for start in (1, 100, 200)]
    with torch.inference_mode():
        for index, computed in ((0, 1), (1, 2), (0, 2), (2, 3), (0, 3), (1, 4)):
            cache.layers(rows[index], [50])
            assert counted.tokens == 50 * computed


def test_common_prefix_leaves_each_row_a_token():
    assert common_prefix([[1, 2, 3], [1, 2, 3]]) == 2
    assert common_prefix([[1, 2, 3], [1, 2], [1, 5, 6, 7]]) == 1
    assert common_prefix([[1], [2]]) == 0


def test_nested_prefixes_are_those_that_save_enough():
    # All share [1, 2]; the first three [1, 2, 3, 4]; the first two [1, 2, 3, 4, 5, 6, 7].
    rows = [
        [1, 2, 3, 4, 5, 6, 7, 8],
        [1, 2, 3, 4, 5, 6, 7, 9],
        [1, 2, 3, 4, 6],
        [1, 2, 9, 9],
    ]
    assert nested_prefixes(rows, 1) == [[2, 4, 7], [2, 4, 7], [2, 4], [2]]
    assert nested_prefixes(rows, 3) == [[2, 7], [2, 7], [2], [2]]  # [3, 4] saves two tokens, [3, 4, 5, 6, 7] five
    assert nested_prefixes(rows, 6) == [[2], [2], [2], [2]]
    five = [[1, 2, 3, last] for last in range(5)]
    assert nested_prefixes([*five, [9]], 12) == [[0, 3]] * 5 + [[0]]  # three tokens for four of five rows
    assert nested_prefixes([*five, [9]], 13) == [[0]] * 6
    assert nested_prefixes([[1], [2]], 1) == [[0], [0]]
    assert nested_prefixes([[1, 2, 3]], 1) == [[2]]
    assert nested_prefixes([[1, 2, 3], [1, 2, 3]], 1) == [[2], [2]]


def test_a_history_that_grows_from_question_to_question_is_read_once(demo):
    """As in CompanionMemory: each prompt repeats the history of the one before it and adds a session."""
    loaded = loaded_from(CONFIGS["llama"](len(demo.tokenizer)), demo.tokenizer)
    sessions = [
        f"On day {day} we talked about {subject} for an hour or so. " * 6 for day, subject in enumerate(TURNS * 2)
    ]
    growing = []
    for number in range(len(sessions)):
        content = "".join(sessions[: number + 1]) + "What did I say?"
        messages = ({"role": "system", "content": SAP}, {"role": "user", "content": content})
        growing.append(Prompt(f"q{number}", "CompanionMemory", "ana", messages, 6))
    expected = [plain_answer(loaded, prompt) for prompt in growing]
    engine = TransformersEngine(loaded, rows=2)
    lengths = engine.prepare(growing)
    read = 0
    forward = loaded.model.forward

    def counted(ids, **options):
        nonlocal read
        read += ids.numel() if ids.shape[1] > 1 else 0  # decoding steps have one token
        return forward(ids, **options)

    loaded.model.forward = counted
    assert [answer.text for answer in engine.answer(growing, 0)] == expected
    assert read < 1.3 * max(lengths) < sum(lengths) / 2


@pytest.fixture
def engine(demo):
    loaded = loaded_from(CONFIGS["llama"](len(demo.tokenizer)), demo.tokenizer)
    engine = TransformersEngine(loaded, rows=6)
    engine.prepare(prompts())
    engine.model = loaded.model
    return engine


@pytest.fixture
def limited(monkeypatch):
    """Let a decoder raise if it has more than some number of rows; the list has the rows of each decoder."""
    sizes, run = [], Decoder.run

    def limit(rows, error):
        def failing(self):
            if not sizes or sizes[-1] != self.cache.rows:
                sizes.append(self.cache.rows)
            if self.cache.rows > rows:
                raise error
            return run(self)

        monkeypatch.setattr(Decoder, "run", failing)
        return sizes

    return limit


def test_out_of_memory_halves_the_rows_from_then_on(engine, limited):
    expected = engine.answer(prompts(), 0)
    sizes = limited(2, torch.OutOfMemoryError("CUDA out of memory."))
    assert engine.answer(prompts(), 0) == expected
    assert sizes == [6, 3, 1]
    assert engine.answer(prompts(), 0) == expected
    assert sizes == [6, 3, 1]


def test_out_of_memory_on_one_prompt_is_reported(engine, limited):
    limited(0, RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"))
    with pytest.raises(H2HTalkError, match=r"out of memory on one prompt \(ana-DialogueBase-0, \d+ tokens\)"):
        engine.answer(prompts()[:2], 0)


def test_on_one_prompt_the_cached_prefixes_are_dropped_first(engine, monkeypatch):
    expected, run = engine.answer(prompts(), 0), Decoder.run

    def needs_their_memory(self):
        if len(engine.prefixes):
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return run(self)

    monkeypatch.setattr(Decoder, "run", needs_their_memory)
    assert engine.answer(prompts(), 0) == expected
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
def test_out_of_memory_has_other_messages_too(engine, limited, error):
    sizes = limited(3, error)
    assert len(engine.answer(prompts()[:2], 0)) == 2
    assert sizes == [6, 3]


def test_other_errors_are_raised(engine, limited):
    limited(0, RuntimeError("shapes differ"))
    with pytest.raises(RuntimeError, match="shapes differ"):
        engine.answer(prompts()[:2], 0)


def test_a_prompt_beyond_the_context_is_refused_before_anything_is_computed(demo):
    sizes = {**GQA, "max_position_embeddings": 80}
    loaded = loaded_from(LlamaConfig(vocab_size=len(demo.tokenizer), **sizes), demo.tokenizer)
    with pytest.raises(H2HTalkError, match=r"has \d+ tokens and its answer up to \d+, but the context of tiny has 80"):
        TransformersEngine(loaded).prepare(prompts())


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
