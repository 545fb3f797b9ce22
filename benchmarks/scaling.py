"""Do two ranks do twice the work? One process of one thread against two, and against two of which one is half as fast.

Other guests of a virtual machine disturb the times, so the three alternate within one job, on the same prompts: a round
has two relationships, and every second round runs the three in reverse order.

    python benchmarks/scaling.py
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from copy import copy
from itertools import pairwise
from pathlib import Path

from results import write

ROUNDS, RELATIONSHIPS, ROWS = 3, 2, 8
WAYS = ("one process", "two processes", "two processes, one at half speed")
IDEAL = (1, 2, 1.5)


def rounds_of_prompts() -> list[list]:
    """The prompts of each round: all prompts of its relationships, each with its own limit of new tokens."""
    from generation import corpus_prompts

    every = corpus_prompts()
    groups = list(dict.fromkeys(prompt.group for prompt in every))
    cuts = range(0, (ROUNDS + 1) * RELATIONSHIPS, RELATIONSHIPS)
    return [[prompt for prompt in every if prompt.group in groups[start:end]] for start, end in pairwise(cuts)]


def half_as_fast(engine) -> None:
    """Let an engine wait after each answer for as long as the work since the last one took."""
    original = engine.stream

    def stream(prompts, seed):
        start = time.perf_counter()
        for answered in original(prompts, seed):
            time.sleep(time.perf_counter() - start)
            yield answered
            start = time.perf_counter()

    engine.stream = stream


def work(out: Path) -> None:
    """One of two ranks; rank 0 writes a line per round and way: their numbers, seconds, answers. Run by torchrun."""
    import torch

    from h2htalk_datasets.generation.distributed.state import DistributedState
    from h2htalk_datasets.generation.engines.models import load_model
    from h2htalk_datasets.generation.engines.transformers import TransformersEngine
    from h2htalk_datasets.generation.in_memory import answer_all

    torch.set_num_threads(1)
    state, loaded = DistributedState(), load_model("demo")
    alone = copy(state)
    alone.world_size = 1
    for number, prompts in enumerate(rounds_of_prompts()):
        for way in (0, 1, 2) if number % 2 == 0 else (2, 1, 0):
            engine = TransformersEngine(loaded, rows=ROWS)  # without cached prefixes
            if way == 2 and not state.is_main:
                half_as_fast(engine)
            state.barrier()
            start = time.perf_counter()
            if state.is_main or way:
                ranks = state if way else alone
                answers = answer_all(engine, prompts, seed=0, state=ranks, key=f"{number}-{way}")
            if state.is_main:
                with out.open("a") as file:
                    print(number, way, time.perf_counter() - start, len(answers), file=file)
            state.barrier()
    state.close()


def launched() -> tuple[list[list[float]], int]:
    """The seconds of each round's three ways, and the number of answers of all rounds."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "seconds"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
        subprocess.run([*command, __file__, "work", str(out)], check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        lines = [line.split() for line in out.read_text().splitlines()]
    took = [[0.0] * len(WAYS) for _ in range(ROUNDS)]
    for number, way, seconds, _ in lines:
        took[int(number)][int(way)] = float(seconds)
    return took, sum(int(answers) for *_, answers in lines) // len(WAYS)


def row(way: int, took: Sequence[Sequence[float]]) -> str:
    """A line of the table: seconds of all rounds, times one process, by round, percent of the ideal."""
    ones, these = [of[0] for of in took], [of[way] for of in took]
    times = sum(ones) / sum(these)
    if not way:
        return f"| {WAYS[way]} | {sum(ones):.1f} | 1 | | |"
    each = sorted(one / this for one, this in zip(ones, these, strict=True))
    return f"| {WAYS[way]} | {sum(these):.1f} | {times:.2f} | {each[0]:.2f} to {each[-1]:.2f} | {100 * times / IDEAL[way]:.0f}% |"


def main() -> None:
    took, answers = launched()
    write(
        "Scaling",
        f"""
The demo model, {answers} prompts with their own limits of new tokens in {ROUNDS} rounds of {RELATIONSHIPS} relationships, {ROWS} rows per process, one
thread each, without loading the model. The three ways alternate on each round's prompts.

| | seconds | times one process | by round | of the ideal |
|---|---:|---:|---:|---:|
{chr(10).join(row(way, took) for way in range(len(WAYS)))}
""",
        ["torch", "transformers", "accelerate"],
    )


if __name__ == "__main__":
    if "work" in sys.argv:
        work(Path(sys.argv[2]))
    else:
        main()
