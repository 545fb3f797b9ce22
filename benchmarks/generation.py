"""How fast generation is, against lm-evaluation-harness and against plain `model.generate`, all in one run.

The demo model answers the same corpus prompts in three ways, greedily, each task with its own limit of new tokens:
lm-eval's `HFLM.generate_until` at the best of its batch sizes (measured on a part of the prompts), `model.generate`
prompt by prompt, and our engine, which refills its rows. Needs lm-eval: pip install lm-eval==0.4.13

    OMP_NUM_THREADS=2 python benchmarks/generation.py [--prompts 128]
"""

import argparse
import difflib
from collections import Counter

import torch
from results import seconds, write

from h2htalk_datasets.generation import Prompt, make_plan
from h2htalk_datasets.generation.engines.models import load_model
from h2htalk_datasets.generation.engines.transformers import TransformersEngine
from h2htalk_datasets.generation.requests import chosen_rows, prompt_of

PEER_SIZES = (1, 2, 4, 8, 16)
OUR_ROWS = (16, 32)
TUNING_PROMPTS = 16  # on which the peer's best batch size is measured


def corpus_prompts(count: int | None = None) -> list[Prompt]:
    """Prompts of one relationship after the other, all tasks, as in the batches of a full run."""
    rows = sorted(chosen_rows(), key=lambda row: row["id"].split("-")[1])
    return [prompt_of(row, sap=True) for row in rows[:count]]


def text_of(loaded, prompt: Prompt) -> str:
    return loaded.tokenizer.apply_chat_template(list(prompt.messages), tokenize=False, add_generation_prompt=True)


def harness(loaded, prompts: list[Prompt], batch_size: int) -> list[str]:
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    model = HFLM(pretrained=loaded.model, tokenizer=loaded.tokenizer, batch_size=batch_size, device="cpu")
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


def same(one: list[str], other: list[str]) -> str:
    """How many texts are identical, and after how many characters the others differ."""
    pairs = list(zip(one, other, strict=True))
    different = [f"{_shared(a, b)} of {max(len(a), len(b))}" for a, b in pairs if a != b]
    identical = f"{len(pairs) - len(different)} of {len(pairs)} identical"
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


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--prompts", type=int, default=128)
    count = options.parse_args().prompts
    prompts, theirs, own = corpus_prompts(count), plain_model(), load_model("demo")
    tuning, fourth = prompts[:: max(1, count // TUNING_PROMPTS)], prompts[::4]
    texts: dict[str, list[str]] = {}
    harness(theirs, prompts[:2], 1)  # warm
    tuned = {size: seconds(lambda s=size: harness(theirs, tuning, s))[0] for size in PEER_SIZES}
    best = min(tuned, key=tuned.__getitem__)
    per = {"lm-eval": seconds(lambda: texts.update(peer=harness(theirs, prompts, best)))[0] / count}
    per["plain"] = seconds(lambda: texts.update(plain=plain(theirs, fourth)))[0] / len(fourth)
    for size in OUR_ROWS:
        took = seconds(lambda s=size: texts.update({f"ours {s}": ours(own, prompts, s)}))[0]
        per[f"ours, {size} rows"] = took / count
    rows = [
        f"| {name} | {one:.2f} | {1 / one:.3f} | {per['lm-eval'] / one:.2f} | {per['plain'] / one:.2f} |"
        for name, one in per.items()
    ]
    tasks = ", ".join(f"{n} {task}" for task, n in Counter(prompt.task for prompt in prompts).most_common())
    mine = texts[f"ours {OUR_ROWS[-1]}"]
    write(
        "Generation",
        f"""
The demo model (SmolLM2-135M-Instruct, float32) on {count} corpus prompts, those of one relationship and the first of the next ({tasks});
greedy, each task with its own limit of new tokens. lm-eval runs at its best batch size of 1, 2, 4, 8, 16, which is {best}, measured on {len(tuning)} of the prompts
({", ".join(f"{size}: {time:.0f} s" for size, time in tuned.items())}); plain `model.generate` takes every fourth prompt, one by one.
The times include tokenizing, planning and computing the prefixes, but not loading the model.

| | seconds per answer | answers per second | times lm-eval | times plain |
|---|---:|---:|---:|---:|
{chr(10).join(rows)}

Texts of ours, {OUR_ROWS[-1]} rows, against lm-eval's: {same(mine, texts["peer"])};
against plain generation: {same(mine[::4], texts["plain"])};
lm-eval's against plain generation: {same(texts["peer"][::4], texts["plain"])};
ours with {OUR_ROWS[0]} rows against {OUR_ROWS[-1]}: {same(texts[f"ours {OUR_ROWS[0]}"], mine)}.
""",
        ["torch", "transformers", "lm-eval"],
    )


if __name__ == "__main__":
    main()
