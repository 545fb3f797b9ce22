"""How fast generation is on a CPU, against other ways, all in one run.

The demo model answers the same corpus prompts in each way, greedily, each task with its own limit of new tokens. The peers:

- lm-eval: its `HFLM.generate_until` at the best of its batch sizes, measured on a part of the prompts (pip install
  lm-eval==0.4.13);
- plain: `model.generate`, prompt by prompt, on every fourth prompt;
- vllm: its own `LLM.generate` with prefix caching, in the environment that `make .venv-vllm/installed` creates.

    OMP_NUM_THREADS=2 python benchmarks/generation.py [--prompts 128] [--peers lm-eval plain vllm]
"""

import argparse
import difflib
import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from results import seconds, write

from h2htalk_datasets.generation import Prompt, make_plan
from h2htalk_datasets.generation.engines.demo_model import demo_folder
from h2htalk_datasets.generation.engines.models import load_model
from h2htalk_datasets.generation.engines.transformers import TransformersEngine
from h2htalk_datasets.generation.requests import chosen_rows, prompt_of

PEER_SIZES = (1, 2, 4, 8, 16)
OUR_ROWS = (16, 32)
TUNING_PROMPTS = 16  # on which the best batch size of lm-eval is measured
PLAIN_STEP = 4  # plain generation answers every fourth prompt
VLLM_PYTHON = Path(__file__).parents[1] / ".venv-vllm" / "bin" / "python"


def corpus_prompts(count: int | None = None) -> list[Prompt]:
    """Prompts of one relationship after the other, all tasks, as in the batches of a full run."""
    rows = sorted(chosen_rows(), key=lambda row: row["id"].split("-")[1])
    return [prompt_of(row, sap=True) for row in rows[:count]]


def text_of(loaded, prompt: Prompt) -> str:
    return loaded.tokenizer.apply_chat_template(list(prompt.messages), tokenize=False, add_generation_prompt=True)


def harness(loaded, prompts: list[Prompt], batch_size: int, device: str = "cpu") -> list[str]:
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    model = HFLM(pretrained=loaded.model, tokenizer=loaded.tokenizer, batch_size=batch_size, device=device)
    requests = [
        Instance(
            "generate_until",
            {},
            (text_of(loaded, prompt), {"until": [], "max_gen_toks": prompt.max_new_tokens, "do_sample": False}),
            place,
        )
        for place, prompt in enumerate(prompts)
    ]
    return [text.strip() for text in model.generate_until(requests, disable_tqdm=True)]


@torch.inference_mode()
def plain(loaded, prompts: list[Prompt]) -> list[str]:
    texts = []
    for prompt in prompts:
        ids = loaded.tokenizer(text_of(loaded, prompt), add_special_tokens=False, return_tensors="pt")
        out = loaded.model.generate(**ids, max_new_tokens=prompt.max_new_tokens, do_sample=False)
        texts.append(loaded.tokenizer.decode(out[0, ids["input_ids"].shape[1] :], skip_special_tokens=True).strip())
    return texts


def ours(loaded, prompts: list[Prompt], rows: int) -> list[str]:
    engine = TransformersEngine(loaded, rows=rows)
    plan = make_plan(prompts, engine.prepare(prompts))
    texts = {prompt.id: answer.text for prompt, answer in engine.stream((p for unit in plan for p in unit), 0)}
    return [texts[prompt.id] for prompt in prompts]


def same(one: list[str], other: list[str], short: bool = False) -> str:
    """How many texts are identical, and, unless it should be short, after how many characters the others differ."""
    pairs = list(zip(one, other, strict=True))
    different = [f"{_shared(a, b)} of {max(len(a), len(b))}" for a, b in pairs if a != b]
    identical = f"{len(pairs) - len(different)} of {len(pairs)} identical"
    if short:
        return f"{len(pairs) - len(different)} of {len(pairs)}"
    return identical + (f"; the others differ after {', '.join(different)} characters" if different else "")


def _shared(a: str, b: str) -> int:
    return difflib.SequenceMatcher(None, a, b, autojunk=False).find_longest_match(0, len(a), 0, len(b)).size


def plain_model():
    """The demo model without our faster linear layers and attention, for the peers."""
    loaded = load_model("demo")
    loaded.model.set_attn_implementation("sdpa")
    for layer in loaded.model.modules():
        layer.__dict__.pop("forward", None)
    return loaded


@dataclass(frozen=True)
class Timed:
    """One way to answer.

    Attributes:
        seconds: per answer.
        texts: in the order of the prompts that it answered.
        note: how it was set up, for the results.

    """

    seconds: float
    texts: list[str]
    note: str = ""


def time_lm_eval(loaded, prompts: list[Prompt]) -> Timed:
    tuning = prompts[:: max(1, len(prompts) // TUNING_PROMPTS)]
    harness(loaded, prompts[:2], 1)  # warm
    tuned = {size: seconds(lambda s=size: harness(loaded, tuning, s))[0] for size in PEER_SIZES}
    best = min(tuned, key=tuned.__getitem__)
    times = ", ".join(f"{size}: {time:.0f} s" for size, time in tuned.items())
    note = f"lm-eval runs at its best batch size, {best}, measured on {len(tuning)} of the prompts ({times})."
    return timed(lambda: harness(loaded, prompts, best), note)


def time_plain(loaded, prompts: list[Prompt]) -> Timed:
    return timed(
        lambda: plain(loaded, prompts[::PLAIN_STEP]), "Plain generation takes every fourth prompt, one by one."
    )


def time_vllm(prompts: list[Prompt]) -> Timed:
    """Measure vLLM in its own environment; its start is not counted."""
    script = Path(__file__).with_name("generation_gpu.py")
    with tempfile.TemporaryDirectory() as where:
        file = Path(where) / "measured.json"
        command = [VLLM_PYTHON, script, "--one", "vllm", demo_folder(), file, "--prompts", len(prompts)]
        subprocess.run(list(map(str, command)), check=True)
        found = json.loads(file.read_text("utf-8"))
    note = f"{found['version']} has prefix caching on and takes {found['start']:.0f} s to start."
    return Timed(found["seconds"] / len(prompts), found["texts"], note)


def timed(answer: Callable[[], list[str]], note: str = "") -> Timed:
    texts: list[str] = []
    took = seconds(lambda: texts.extend(answer()))[0]
    return Timed(took / len(texts), texts, note)


def table(ways: dict[str, Timed], peers: Sequence[str]) -> str:
    lines = [
        f"| | seconds per answer | answers per second | {' | '.join(f'times {peer}' for peer in peers)} |",
        "|---|" + "---:|" * (2 + len(peers)),
    ]
    for name, one in ways.items():
        ratios = " | ".join(f"{ways[peer].seconds / one.seconds:.2f}" for peer in peers)
        lines.append(f"| {name} | {one.seconds:.2f} | {1 / one.seconds:.3f} | {ratios} |")
    return "\n".join(lines)


def compared(ways: dict[str, Timed], mine: str) -> str:
    """How many texts of ours equal those of every other way."""
    lines = []
    for name, one in ways.items():
        step = len(ways[mine].texts) // len(one.texts)
        if name != mine:
            lines.append(f"Texts of {mine}, against {name}: {same(ways[mine].texts[::step], one.texts)}.")
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--prompts", type=int, default=128)
    options.add_argument(
        "--peers", nargs="+", choices=["lm-eval", "plain", "vllm"], default=["lm-eval", "plain", "vllm"]
    )
    chosen = options.parse_args()
    prompts, theirs, own = corpus_prompts(chosen.prompts), plain_model(), load_model("demo")
    peers = {
        "lm-eval": lambda: time_lm_eval(theirs, prompts),
        "plain": lambda: time_plain(theirs, prompts),
        "vllm": lambda: time_vllm(prompts),
    }
    ways = {peer: peers[peer]() for peer in chosen.peers}
    ours(own, prompts[:2], OUR_ROWS[0])  # warm
    ways |= {f"ours, {size} rows": timed(lambda s=size: ours(own, prompts, s)) for size in OUR_ROWS}
    tasks = ", ".join(f"{n} {task}" for task, n in Counter(prompt.task for prompt in prompts).most_common())
    write(
        f"Generation on a CPU, against {', '.join(chosen.peers)}",
        f"""
The demo model (SmolLM2-135M-Instruct, float32) on {len(prompts)} corpus prompts, relationship by relationship ({tasks}); greedy, each
task with its own limit of new tokens. {" ".join(one.note for one in ways.values() if one.note)}
The times include tokenizing, planning and computing the prefixes, but not loading the model.

{table(ways, chosen.peers)}

{compared(ways, f"ours, {OUR_ROWS[-1]} rows")}
""",
        ["torch", "transformers", *(["lm-eval"] if "lm-eval" in chosen.peers else [])],
    )


if __name__ == "__main__":
    main()
