"""How well the batch plan keeps many ranks busy: measured batch times, replayed on 1 to 512 ranks.

Batches spread over the real plan of the full corpus are timed with the demo model. From them a line is fitted (seconds
against prompt tokens beyond the shared prefix, decoding steps, and rows times steps) that prices every batch of the plan,
each with the residual of a timed one drawn by a seed. Then ranks take batches from a queue, in the plan's order. Two
figures come of it: how busy the ranks are, and how much faster than one rank they end, which is less, since every rank
computes the prefixes of the relationships that it meets.

    OMP_NUM_THREADS=2 python benchmarks/simulate.py
"""

import heapq
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from results import seconds, write

from h2htalk_datasets.generation import Batch, Prompt, make_plan
from h2htalk_datasets.generation.generate import chosen_rows, prompt_of
from h2htalk_datasets.generation.models import load_model
from h2htalk_datasets.generation.transformers_engine import TransformersEngine

SIZES = (8, 16)
TIMED = 16  # batches of each size
RANKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def features(engine, prompts: Sequence[Prompt]) -> list[float]:
    """What a batch's time depends on: tokens that are read anew, decoding steps, rows times steps."""
    rows = [len(engine._tokens[prompt.id]) for prompt in prompts]
    shared = engine._shared[prompts[0].group][1]
    steps = max(prompt.max_new_tokens for prompt in prompts)
    return [1.0, sum(rows) - shared * len(rows), steps, steps * len(rows)]


def timed(engine, prompts, plan: list[Batch]) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Of batches spread over the plan: features, seconds under a kept prefix; and seconds to compute new prefixes."""
    chosen = [plan[index * len(plan) // TIMED].asked(prompts, 0) for index in range(TIMED)]
    took, prefixes, met = [], [], set()
    for asked in chosen:
        word = replace(asked.prompts[0], max_new_tokens=1)
        first, kept = seconds(lambda one=word: engine.answer([one], 0), 2)
        if met and word.group not in met:  # the very first also computes what all relationships share
            prefixes.append(first - kept)
        met.add(word.group)
        took += seconds(lambda ask=asked: engine.answer(ask.prompts, ask.seed))
    return np.array([features(engine, asked.prompts) for asked in chosen]), np.array(took), prefixes


def replay(costs: np.ndarray, groups: Sequence[str], prefix: float, ranks: int) -> tuple[float, float]:
    """When each rank takes the next batch as soon as it is free: seconds of work together, and until the last ends."""
    free = [(0.0, rank) for rank in range(ranks)]
    met: list[set[str]] = [set() for _ in free]
    work = 0.0
    for cost, group in zip(costs, groups, strict=True):
        now, rank = free[0]
        took = cost + (0.0 if group in met[rank] else prefix)
        met[rank].add(group)
        work += took
        heapq.heapreplace(free, (now + took, rank))
    return work, max(now for now, _ in free)


def main() -> None:
    engine = TransformersEngine(load_model("demo"))
    everyone = [prompt_of(row, sap=True) for row in chosen_rows()]
    lengths, prompts = engine.prepare(everyone), {prompt.id: prompt for prompt in everyone}
    lines, notes = [], []
    for size in SIZES:
        plan = make_plan(everyone, lengths, size)
        known, took, prefixes = timed(engine, prompts, plan)
        weights, *_ = np.linalg.lstsq(known, took, rcond=None)
        ratios = took / (known @ weights)
        batches = [[prompts[identity] for identity in batch.ids] for batch in plan]
        drawn = np.random.default_rng(0).choice(ratios, len(plan))
        costs = np.array([features(engine, batch) for batch in batches]) @ weights * drawn
        groups, prefix = [batch[0].group for batch in batches], float(np.median(prefixes))
        alone = replay(costs, groups, prefix, 1)[1]
        replayed = [(ranks, *replay(costs, groups, prefix, ranks)) for ranks in RANKS]
        busy = " | ".join(f"{100 * work / (ranks * end):.1f}" for ranks, work, end in replayed)
        faster = " | ".join(f"{alone / end:.1f}" for _, _, end in replayed)
        lines += [f"| {size} | {len(plan)} | busy, % | {busy} |", f"| | | times one rank | {faster} |"]
        notes.append(
            f"Batch size {size}: {TIMED} batches timed, {took.min():.1f} to {took.max():.1f} s; the fitted line is off by "
            f"{100 * np.abs(ratios - 1).mean():.0f}% on average; a relationship's prefix takes {prefix:.1f} s. At 64 ranks "
            f"{len(plan) / 64:.1f} batches a rank, the longest {100 * costs.max() / (costs.sum() / 64):.0f}% of a rank's work."
        )
    write(
        "Many ranks, simulated",
        f"""
The full corpus's batch plan, longest first, replayed on 1 to 512 ranks. Busy: the share of the ranks' time, from the
start to the last one's end, that is work. Times one rank: the prefix of a relationship is computed by every rank that meets it.

| batch size | batches | ranks | {" | ".join(map(str, RANKS))} |
|---:|---:|---|{"---:|" * len(RANKS)}
{chr(10).join(lines)}

{chr(10).join(notes)}
What limits it is the number of batches a rank: the last ones end apart by up to one batch's time, so smaller batches
keep more ranks busy, and larger ones feed each GPU better.
""",
        ["torch", "transformers"],
    )


if __name__ == "__main__":
    main()
