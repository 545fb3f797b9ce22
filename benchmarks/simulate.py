"""How well the batch plan keeps many ranks busy: measured batch times, replayed on 1 to 512 ranks.

Batches spread over the real plan of the full corpus are timed with the demo model, all of them three times over, of
which the fastest counts: what other guests of the machine take for a while is no property of a batch. From them a line
is fitted (seconds against prompt tokens that are read anew, decoding steps, and rows times steps) that prices every
batch of the plan, each with the residual of a timed one, drawn by a seed; which batch gets which moves the figures by a
few tenths, so means of several draws are given. Then ranks take batches from a queue, in the plan's order. Two figures
come of it: how busy the ranks are, and how much faster than one rank they end, which is less, since every rank computes
the prefixes of the relationships that it meets.

    OMP_NUM_THREADS=2 python benchmarks/simulate.py
"""

import heapq
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from results import seconds, write

from h2htalk_datasets.generation import Batch, Prompt, make_plan
from h2htalk_datasets.generation.engines.models import load_model
from h2htalk_datasets.generation.engines.prefix_cache import common_prefix
from h2htalk_datasets.generation.engines.transformers import TransformersEngine
from h2htalk_datasets.generation.requests import chosen_rows, prompt_of

SIZES = (8, 16)
TIMED, TIMES = 16, 3  # batches of each size, and how often each
DRAWS = 20  # of residuals
RANKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def features(engine, prompts: Sequence[Prompt]) -> list[float]:
    """What a batch's time depends on: tokens that are read anew, decoding steps, rows times steps."""
    rows = [engine._tokens[prompt.id] for prompt in prompts]
    kept = engine._shared[prompts[0].group][1]
    own = max(kept, common_prefix(rows)) if len(rows) > 1 else kept  # what the batch shares beyond is read once
    steps = max(prompt.max_new_tokens for prompt in prompts)
    return [1.0, own - kept + sum(len(row) - own for row in rows), steps, steps * len(rows)]


def timed(engine, prompts, plan: list[Batch]) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Of batches spread over the plan: features, seconds under a kept prefix; and seconds to compute new prefixes."""
    chosen = [plan[index * len(plan) // TIMED].asked(prompts, 0) for index in range(TIMED)]
    took, prefixes, met = [[] for _ in chosen], [], set()
    for _ in range(TIMES):
        for asked, times in zip(chosen, took, strict=True):
            word = replace(asked.prompts[0], max_new_tokens=1)
            first, kept = seconds(lambda one=word: engine.answer([one], 0), 2)
            if met and word.group not in met:  # the very first also computes what all relationships share
                prefixes.append(first - kept)
            met.add(word.group)
            times.extend(seconds(lambda ask=asked: engine.answer(ask.prompts, ask.seed)))
    return np.array([features(engine, asked.prompts) for asked in chosen]), np.min(took, axis=1), prefixes


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


def drawn(costs: np.ndarray, ratios: np.ndarray, groups: Sequence[str], prefix: float) -> tuple[np.ndarray, np.ndarray]:
    """Percent busy and times one rank, each of shape (draws, numbers of ranks), with residuals drawn from `ratios`."""
    draws = costs * np.random.default_rng(0).choice(ratios, (DRAWS, len(costs)))
    replayed = np.array([[replay(draw, groups, prefix, ranks) for ranks in RANKS] for draw in draws])
    work, end = np.moveaxis(replayed, 2, 0)
    return 100 * work / (end * RANKS), end[:, :1] / end


def main() -> None:
    engine = TransformersEngine(load_model("demo"))
    everyone = [prompt_of(row, sap=True) for row in chosen_rows()]
    lengths, prompts = engine.prepare(everyone), {prompt.id: prompt for prompt in everyone}
    lines, notes, at = [], [], RANKS.index(64)
    for size in SIZES:
        plan = make_plan(everyone, lengths, size)
        known, took, prefixes = timed(engine, prompts, plan)
        weights, *_ = np.linalg.lstsq(known, took, rcond=None)
        ratios = took / (known @ weights)
        batches = [[prompts[identity] for identity in batch.ids] for batch in plan]
        costs = np.array([features(engine, batch) for batch in batches]) @ weights
        groups, prefix = [batch[0].group for batch in batches], float(np.median(prefixes))
        busy, faster = drawn(costs, ratios, groups, prefix)
        lines += [
            f"| {size} | {len(plan)} | busy, % | {' | '.join(f'{share:.1f}' for share in busy.mean(0))} |",
            f"| | | times one rank | {' | '.join(f'{times:.1f}' for times in faster.mean(0))} |",
        ]
        notes.append(
            f"Batch size {size}: {TIMED} batches timed, {took.min():.1f} to {took.max():.1f} s; the fitted line is off by "
            f"{100 * np.abs(ratios - 1).mean():.0f}% on average; a relationship's prefix takes {prefix:.1f} s. At 64 ranks "
            f"{len(plan) / 64:.1f} batches a rank, the longest {100 * costs.max() / (costs.sum() / 64):.0f}% of a rank's work; "
            f"the {DRAWS} draws lie between {busy[:, at].min():.1f} and {busy[:, at].max():.1f}% busy."
        )
    write(
        "Many ranks, simulated",
        f"""
The full corpus's batch plan, longest first, replayed on 1 to 512 ranks; means of {DRAWS} draws of the residuals. Busy: the
share of the ranks' time, from the start to the last one's end, that is work. Times one rank: the prefix of a relationship
is computed by every rank that meets it.

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
