"""How well the batch plan keeps many ranks busy: measured batch times, replayed on 1 to 512 ranks.

The demo model answers batches from all parts of the full corpus's plan, each three times, and the fastest time counts,
because other guests of the machine slow some runs down. A linear fit (seconds by prompt tokens to read, decoding steps,
and rows times steps) then predicts the time of every batch of the plan, multiplied by the ratio of a measured to a
predicted time, chosen at random with a fixed seed. Means of several such choices are reported. The ranks claim batches
from a queue, in the order of the plan. Two numbers result: how busy the ranks are, and how much faster than one rank
they finish, which is less, because every rank computes the prefixes of the relationships that it answers.

    OMP_NUM_THREADS=2 python benchmarks/simulate.py
"""

import heapq
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from results import seconds, write

from h2htalk_datasets.generation import BatchSpec, Prompt, make_plan
from h2htalk_datasets.generation.engines.models import load_model
from h2htalk_datasets.generation.engines.prefix_cache import common_prefix
from h2htalk_datasets.generation.engines.transformers import TransformersEngine
from h2htalk_datasets.generation.requests import chosen_rows, prompt_of

SIZES = (8, 16)
TIMED, TIMES = 16, 3  # batches of each size, and how often each
SAMPLES = 20  # of the ratios of measured to predicted times
RANKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def features(engine, prompts: Sequence[Prompt]) -> list[float]:
    """What a batch's time depends on: tokens to read, decoding steps, rows times steps."""
    rows = [engine._tokens[prompt.id] for prompt in prompts]
    cached = engine._prefix_lens[prompts[0].group][1]
    shared = max(cached, common_prefix(rows)) if len(rows) > 1 else cached  # the batch's own prefix is read once
    steps = max(prompt.max_new_tokens for prompt in prompts)
    return [1.0, shared - cached + sum(len(row) - shared for row in rows), steps, steps * len(rows)]


def timed(engine, prompts, plan: list[BatchSpec]) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Features and seconds of batches from all parts of the plan, and the seconds to compute each new prefix."""
    batches = [plan[index * len(plan) // TIMED].batch(prompts, 0) for index in range(TIMED)]
    took, prefixes, groups = [[] for _ in batches], [], set()
    for _ in range(TIMES):
        for batch, times in zip(batches, took, strict=True):
            one_token = replace(batch.prompts[0], max_new_tokens=1)
            first, cached = seconds(lambda prompt=one_token: engine.answer([prompt], 0), 2)
            if groups and one_token.group not in groups:  # the first one also computes the prefix of all groups
                prefixes.append(first - cached)
            groups.add(one_token.group)
            times.extend(seconds(lambda b=batch: engine.answer(b.prompts, b.seed)))
    return np.array([features(engine, batch.prompts) for batch in batches]), np.min(took, axis=1), prefixes


def replay(costs: np.ndarray, groups: Sequence[str], prefix: float, ranks: int) -> tuple[float, float]:
    """Let each rank claim the next batch as soon as it is free: seconds of all work, and until the last rank ends."""
    free = [(0.0, rank) for rank in range(ranks)]
    cached: list[set[str]] = [set() for _ in free]
    work = 0.0
    for cost, group in zip(costs, groups, strict=True):
        now, rank = free[0]
        took = cost + (0.0 if group in cached[rank] else prefix)
        cached[rank].add(group)
        work += took
        heapq.heapreplace(free, (now + took, rank))
    return work, max(now for now, _ in free)


def simulated(
    costs: np.ndarray, ratios: np.ndarray, groups: Sequence[str], prefix: float
) -> tuple[np.ndarray, np.ndarray]:
    """Percent busy and times one rank, each of shape (samples, numbers of ranks)."""
    samples = costs * np.random.default_rng(0).choice(ratios, (SAMPLES, len(costs)))
    replayed = np.array([[replay(sample, groups, prefix, ranks) for ranks in RANKS] for sample in samples])
    work, end = np.moveaxis(replayed, 2, 0)
    return 100 * work / (end * RANKS), end[:, :1] / end


def main() -> None:
    engine = TransformersEngine(load_model("demo"))
    corpus = [prompt_of(row, sap=True) for row in chosen_rows()]
    lengths, prompts = engine.prepare(corpus), {prompt.id: prompt for prompt in corpus}
    lines, notes, at = [], [], RANKS.index(64)
    for size in SIZES:
        plan = make_plan(corpus, lengths, size)
        measured, took, prefixes = timed(engine, prompts, plan)
        weights, *_ = np.linalg.lstsq(measured, took, rcond=None)
        ratios = took / (measured @ weights)
        batches = [[prompts[identity] for identity in batch.ids] for batch in plan]
        costs = np.array([features(engine, batch) for batch in batches]) @ weights
        groups, prefix = [batch[0].group for batch in batches], float(np.median(prefixes))
        busy, faster = simulated(costs, ratios, groups, prefix)
        lines += [
            f"| {size} | {len(plan)} | busy, % | {' | '.join(f'{share:.1f}' for share in busy.mean(0))} |",
            f"| | | times one rank | {' | '.join(f'{times:.1f}' for times in faster.mean(0))} |",
        ]
        notes.append(
            f"Batch size {size}: {TIMED} batches timed, {took.min():.1f} to {took.max():.1f} s; the fit is off by "
            f"{100 * np.abs(ratios - 1).mean():.0f}% on average; a relationship's prefix takes {prefix:.1f} s. At 64 ranks "
            f"{len(plan) / 64:.1f} batches per rank, the longest {100 * costs.max() / (costs.sum() / 64):.0f}% of a rank's work; "
            f"the {SAMPLES} samples are between {busy[:, at].min():.1f} and {busy[:, at].max():.1f}% busy."
        )
    write(
        "Many ranks, simulated",
        f"""
The full corpus's batch plan, longest first, replayed on 1 to 512 ranks; means of {SAMPLES} samples. Busy: the share of the
ranks' time, from the start to the end of the last one, in which they work. Times one rank: every rank computes the
prefixes of the relationships that it answers.

| batch size | batches | ranks | {" | ".join(map(str, RANKS))} |
|---:|---:|---|{"---:|" * len(RANKS)}
{chr(10).join(lines)}

{chr(10).join(notes)}
The limit is the number of batches per rank: the ranks end up to one batch's time apart, so smaller batches keep more
ranks busy, and larger ones use each GPU better.
""",
        ["torch", "transformers"],
    )


if __name__ == "__main__":
    main()
