"""How well the batch plan keeps many ranks busy: measured batch times, replayed on 1 to 512 ranks.

Batches spread over the real plan of the full corpus are timed with the demo model. From them a line is fitted (seconds
against prompt tokens beyond the shared prefix, decoding steps, and rows times steps) that prices every batch of the plan,
each with the residual of a timed one drawn by a seed. Then ranks take batches from a queue, in the plan's order.

    OMP_NUM_THREADS=2 python benchmarks/simulate.py
"""

import heapq
import time

import numpy as np
from results import write

from h2htalk_datasets.generation import Batch, make_plan
from h2htalk_datasets.generation.generate import chosen_rows, prompt_of
from h2htalk_datasets.generation.models import load_model
from h2htalk_datasets.generation.transformers_engine import TransformersEngine

SIZES = (8, 16)
TIMED = 16  # batches of each size
RANKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def features(engine, prompts, batch: Batch) -> list[float]:
    rows = [len(engine._tokens[identity]) for identity in batch.ids]
    shared = engine._shared[prompts[batch.ids[0]].group][1]
    steps = max(prompts[identity].max_new_tokens for identity in batch.ids)
    return [1.0, sum(rows) - shared * len(rows), steps, steps * len(rows)]


def timed(engine, prompts, plan: list[Batch]) -> tuple[np.ndarray, np.ndarray]:
    """Features and seconds of batches spread over the plan, the prefix computed before."""
    chosen = [plan[index * len(plan) // TIMED] for index in range(TIMED)]
    seconds = []
    for batch in chosen:
        asked = batch.asked(prompts, 0)
        engine.answer(asked.prompts[:1], 0)
        start = time.perf_counter()
        engine.answer(asked.prompts, asked.seed)
        seconds.append(time.perf_counter() - start)
    return np.array([features(engine, prompts, batch) for batch in chosen]), np.array(seconds)


def replay(seconds: np.ndarray, ranks: int) -> float:
    """Share of the ranks' time that is work, when each takes the next batch as soon as it is free."""
    free = [0.0] * ranks
    for cost in seconds:
        heapq.heapreplace(free, free[0] + cost)
    return float(seconds.sum() / (ranks * max(free)))


def main() -> None:
    engine = TransformersEngine(load_model("demo"))
    everyone = [prompt_of(row, sap=True) for row in chosen_rows()]
    lengths, prompts = engine.prepare(everyone), {prompt.id: prompt for prompt in everyone}
    lines, notes = [], []
    for size in SIZES:
        plan = make_plan(everyone, lengths, size)
        known, seconds = timed(engine, prompts, plan)
        weights, *_ = np.linalg.lstsq(known, seconds, rcond=None)
        ratios = seconds / (known @ weights)
        drawn = np.random.default_rng(0).choice(ratios, len(plan))
        costs = np.array([features(engine, prompts, batch) for batch in plan]) @ weights * drawn
        shares = [f"{100 * replay(costs, ranks):.1f}" for ranks in RANKS]
        lines.append(f"| {size} | {len(plan)} | {' | '.join(shares)} |")
        notes.append(
            f"batch size {size}: {TIMED} batches of {seconds.min():.1f} to {seconds.max():.1f} s, the line is off by "
            f"{100 * np.abs(ratios - 1).mean():.0f}% on average; {len(plan) / 64:.1f} batches a rank at 64, "
            f"the longest {costs.max() / (costs.sum() / 64):.2f} of a rank's work there"
        )
    write(
        "Many ranks, simulated",
        f"""
The full corpus's batch plan, longest first, replayed on 1 to 512 ranks: per cent of the ranks' time that is work.

| batch size | batches | {" | ".join(map(str, RANKS))} |
|---:|---:|{"---:|" * len(RANKS)}
{chr(10).join(lines)}

{"; ".join(notes)}. What limits it is the number of batches a rank: the last ones end apart by up to one batch's time,
so smaller batches keep more ranks busy, and larger ones feed each GPU better.
""",
        ["torch", "transformers"],
    )


if __name__ == "__main__":
    main()
