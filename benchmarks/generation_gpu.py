"""How fast each engine answers on a GPU, against vLLM alone and lm-evaluation-harness, all in one run.

Each way runs in a process of its own, so its memory is its own. Every way gets the same token ids and the same limits of
new tokens. The shapes `1b` and `7b` are Llama models with random weights: speed depends on shapes, not on weights. Needs
vLLM and lm-eval (pip install vllm lm-eval==0.4.13); a way whose package is missing is named and left out.

    python benchmarks/generation_gpu.py [--models demo 1b 7b] [--prompts 256] [--ways ours vllm]
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import torch
from generation import corpus_prompts, harness, same
from results import write

from h2htalk_datasets.generation import Prompt, make_plan
from h2htalk_datasets.generation.engines.demo_model import demo_folder
from h2htalk_datasets.generation.engines.models import load_model
from h2htalk_datasets.generation.engines.transformers import TransformersEngine
from h2htalk_datasets.generation.engines.vllm import VllmEngine, installed_version

SHAPES = {
    "1b": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32},
    "7b": {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32},
}
KEY_VALUE_HEADS = 8
HARNESS_PROMPTS = 64  # the slow peers answer only this many
HARNESS_BATCH = 64
WARM_PROMPTS = 8  # answered before the clock starts: kernels are chosen and graphs captured once per process
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@dataclass
class Measured:
    """One way on one model.

    Attributes:
        version: of what answered.
        start: seconds until the model was ready.
        seconds: for all answers.
        held: GiB of GPU memory in use at the end, by the whole device; 0 on a CPU.
        tokens: new tokens of all answers.
        texts: answers in the order of the prompts.

    """

    version: str
    start: float
    seconds: float
    held: float
    tokens: int
    texts: list[str]


# Each way loads the model and returns a function that answers prompts.
Answering = Callable[[list[Prompt]], list[str]]


def ours(folder: str, rows: int | None = None, shuffled: bool = False) -> Answering:
    engine = TransformersEngine(load_model(folder, device=DEVICE), rows=rows)
    return lambda prompts: _stream(engine, prompts, shuffled)


def ours_vllm(folder: str) -> Answering:
    engine = VllmEngine(folder, devices=[0] if DEVICE == "cuda" else [])
    return lambda prompts: _stream(engine, prompts)


def _stream(engine, prompts: list[Prompt], shuffled: bool = False) -> list[str]:
    order = [prompt for unit in make_plan(prompts, engine.prepare(prompts)) for prompt in unit]
    if shuffled:
        random.Random(0).shuffle(order)
    texts = {prompt.id: answer.text for prompt, answer in engine.stream(order, 0)}
    return [texts[prompt.id] for prompt in prompts]


def vllm(folder: str) -> Answering:
    """VLLM's own `LLM.generate` with prefix caching: the upper bound for our engines."""
    from vllm import LLM, SamplingParams

    model = LLM(
        model=folder,
        enable_prefix_caching=True,
        generation_config="vllm",
        disable_log_stats=True,
        dtype="auto" if DEVICE == "cuda" else "float32",  # as our engine on each
    )
    tokenizer = model.get_tokenizer()

    def answer(prompts: list[Prompt]) -> list[str]:
        ids = [_ids(tokenizer, prompt) for prompt in prompts]
        limits = [SamplingParams(temperature=0.0, max_tokens=prompt.max_new_tokens) for prompt in prompts]
        outputs = model.generate([{"prompt_token_ids": one} for one in ids], limits, use_tqdm=False)
        return [output.outputs[0].text.strip() for output in outputs]

    return answer


def lm_eval_hf(folder: str) -> Answering:
    loaded = load_model(folder, device=DEVICE)
    return lambda prompts: harness(loaded, prompts[:HARNESS_PROMPTS], HARNESS_BATCH, DEVICE)


def _ids(tokenizer, prompt: Prompt) -> list[int]:
    text = tokenizer.apply_chat_template(list(prompt.messages), tokenize=False, add_generation_prompt=True)
    return tokenizer(text, add_special_tokens=False)["input_ids"]


WAYS: dict[str, tuple[Callable[[str], Answering], str | None]] = {  # with the package that each one needs
    "vllm": (vllm, "vllm"),
    "ours": (ours, None),
    "ours-64-rows": (lambda folder: ours(folder, 64), None),
    "ours-256-rows": (lambda folder: ours(folder, 256), None),
    "ours-shuffled": (lambda folder: ours(folder, shuffled=True), None),
    "ours-vllm": (ours_vllm, "vllm"),
    "lm-eval-hf": (lm_eval_hf, "lm_eval"),
}


def checkpoint(model: str, folder: Path) -> Path:
    """Return the folder of a model; a shape is written with random weights and the demo model's tokenizer."""
    if model == "demo":
        return demo_folder()
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(demo_folder())
    config = LlamaConfig(
        **SHAPES[model],
        num_key_value_heads=KEY_VALUE_HEADS,
        vocab_size=len(tokenizer),
        max_position_embeddings=8192,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    torch.manual_seed(0)
    with torch.device(DEVICE):
        weights = LlamaForCausalLM._from_config(config, dtype=torch.bfloat16)
    weights.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def measure(way: str, folder: str, count: int) -> Measured:
    """Run one way in this process."""
    prompts = corpus_prompts(count)
    begin = time.perf_counter()
    answer = WAYS[way][0](folder)
    start = time.perf_counter() - begin
    answer(prompts[-WARM_PROMPTS:])
    begin = time.perf_counter()
    texts = answer(prompts)
    seconds = time.perf_counter() - begin
    held = 0.0
    if DEVICE == "cuda":
        free, total = torch.cuda.mem_get_info()
        held = (total - free) / 2**30
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokens = sum(len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts)
    used = installed_version() if "vllm" in way else f"transformers {version('transformers')}"
    return Measured(used, start, seconds, held, tokens, texts)


def measure_apart(way: str, folder: str, count: int) -> Measured | str:
    """Run one way in a process of its own; return what it measured, or the last line of its error."""
    with tempfile.TemporaryDirectory() as where:
        file = Path(where) / "measured.json"
        command = [sys.executable, __file__, "--one", way, folder, str(file), "--prompts", str(count)]
        done = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            return done.stderr.strip().rpartition("\n")[2]
        return Measured(**json.loads(file.read_text("utf-8")))


def table(found: dict[str, Measured]) -> str:
    """One line per way: speeds against the first way."""
    first = next(iter(found.values()))
    speed = {way: len(one.texts) / one.seconds for way, one in found.items()}
    base = len(first.texts) / first.seconds
    lines = [
        f"| {way} | {len(one.texts)} | {speed[way]:.2f} | {one.tokens / one.seconds:,.0f} | {speed[way] / base:.2f} "
        f"| {one.held:.1f} | {one.start:.0f} | {same(one.texts, first.texts[: len(one.texts)], short=True)} |"
        for way, one in found.items()
    ]
    base_name = next(iter(found))
    head = (
        f"| way | answers | answers per second | tokens per second | times {base_name} | GiB held | seconds to start "
        f"| same texts as {base_name} |\n|---|---:|---:|---:|---:|---:|---:|---:|"
    )
    return "\n".join([head, *lines])


def identical(found: dict[str, Measured]) -> str:
    """How many texts our Transformers engine keeps at other numbers of rows and in another order."""
    if "ours" not in found:
        return ""
    others = [way for way in found if way.startswith("ours-") and way != "ours-vllm"]
    return "; ".join(f"ours against {way}: {same(found['ours'].texts, found[way].texts, short=True)}" for way in others)


def compare(model: str, ways: Sequence[str], count: int) -> str:
    """Measure all ways on one model, as a section of the results."""
    with tempfile.TemporaryDirectory() as where:
        folder = str(checkpoint(model, Path(where)))
        torch.cuda.empty_cache()  # the weights that were written above
        results = {way: measure_apart(way, folder, count) for way in ways}
    found = {way: one for way, one in results.items() if isinstance(one, Measured)}
    failed = "\n".join(f"{way} failed: {one}" for way, one in results.items() if isinstance(one, str))
    return f"{model}, {count} prompts:\n\n{table(found) if found else ''}\n\n{identical(found)}\n{failed}"


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--models", nargs="+", choices=["demo", *SHAPES], default=["demo", *SHAPES])
    options.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    options.add_argument("--prompts", type=int, default=256)
    options.add_argument("--one", nargs=3, metavar=("WAY", "FOLDER", "FILE"), help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.one:
        way, folder, file = chosen.one
        Path(file).write_text(json.dumps(asdict(measure(way, folder, chosen.prompts))), "utf-8")
        return
    packages = {WAYS[way][1] for way in chosen.ways} - {None}
    missing = {package for package in packages if find_spec(package) is None}
    ways = [way for way in chosen.ways if WAYS[way][1] not in missing]
    without = f"Left out, since not installed: {', '.join(sorted(missing))}.\n\n" if missing else ""
    device = torch.cuda.get_device_name() if DEVICE == "cuda" else "no GPU, so this is only a test of the script"
    sections = "\n\n".join(compare(model, ways, chosen.prompts) for model in chosen.models)
    write("Generation on a GPU", f"On {device}. {without}{sections}", ["torch", "transformers"])


if __name__ == "__main__":
    main()
