"""How long a full run takes on 1 to 512 processes, and how busy they are: the work plan, replayed with measured costs.

Each process has rows that decode one token per step. When an answer ends, its row takes the next prompt; the process
claims units from the queue, as in a run. Answers are as long as the references. The costs of a step and of reading
prompts come from this machine (the demo model), or are given for other hardware:

    OMP_NUM_THREADS=2 python benchmarks/simulate.py
    python benchmarks/simulate.py --name "7B, H100" --rows 128 --step-ms 21 --read-tokens-per-second 30000
"""

import argparse
import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from results import seconds, write

from h2htalk_datasets.generation import Prompt, make_plan
from h2htalk_datasets.generation.engines.models import load_model
from h2htalk_datasets.generation.engines.prefixes import common_prefix
from h2htalk_datasets.generation.engines.transformers import FILL_TOKENS, TransformersEngine
from h2htalk_datasets.generation.requests import chosen_rows, prompt_of

RANKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
MEASURED_PROMPTS = 24


@dataclass(frozen=True)
class Costs:
    """Seconds of what a process does.

    Attributes:
        step: decoding one token in all rows.
        read: reading one token of a prompt.

    """

    step: float
    read: float


@dataclass(frozen=True)
class Work:
    """One prompt: what it costs.

    Attributes:
        group: its relationship.
        prefix: tokens that a process reads once per relationship.
        own: tokens after that.
        new: tokens of the answer.

    """

    group: str
    prefix: int
    own: int
    new: int


def replay(units: Sequence[Sequence[Work]], ranks: int, rows: int, costs: Costs) -> tuple[float, float]:
    """Let each process claim the next unit as soon as a row is free.

    Returns:
        Seconds until the last process ends, and the share of all processes' time until then in which they work.

    """
    queue = iter(units)
    processes = [_Process(queue, min(rows, -(-sum(map(len, units)) // ranks)), costs) for _ in range(ranks)]
    waiting = [(0.0, number) for number in range(ranks)]
    end = worked = 0.0
    while waiting:
        now, number = heapq.heappop(waiting)
        took = processes[number].work()
        if took is None:
            end = max(end, now)
            continue
        worked += took
        heapq.heappush(waiting, (now + took, number))
    return end, worked / (end * ranks)


class _Process:
    def __init__(self, queue: Iterable[Sequence[Work]], rows: int, costs: Costs) -> None:
        self._queue, self._rows, self._costs = iter(queue), rows, costs
        self._own: list[Work] = []
        self._left: list[int] = []  # tokens of the running answers
        self._groups: set[str] = set()

    def work(self) -> float | None:
        """Read prompts into free rows, or else decode until an answer ends.

        Returns:
            The seconds it takes; None when there is nothing left.

        """
        if len(self._left) < self._rows and (prompts := self._take(self._rows - len(self._left))):
            read = sum(prompt.own for prompt in prompts)
            if prompts[0].group not in self._groups:
                self._groups.add(prompts[0].group)
                read += prompts[0].prefix
            self._left += [prompt.new for prompt in prompts]
            return read * self._costs.read
        if not self._left:
            return None
        steps = min(self._left)
        self._left = [left - steps for left in self._left if left > steps]
        return steps * self._costs.step

    def _take(self, most: int) -> list[Work]:
        """Prompts of one unit that the engine reads at once."""
        if not self._own:
            self._own = list(next(self._queue, ()))
        most = min(most, max(1, FILL_TOKENS // self._own[0].own)) if self._own else 0
        taken, self._own = self._own[:most], self._own[most:]
        return taken


def plan_of_work(
    engine: TransformersEngine, tokenizer, prompts: Sequence[Prompt], references: dict[str, str]
) -> list[list[Work]]:
    """The work plan, with the costs of each prompt instead of its text."""
    plan = make_plan(prompts, engine.prepare(prompts))
    prefixes = group_prefixes(engine, prompts)

    def work(prompt: Prompt) -> Work:
        tokens, prefix = len(engine._tokens[prompt]), prefixes[prompt.group]
        new = len(tokenizer(references[prompt.id], add_special_tokens=False)["input_ids"]) + 1
        return Work(prompt.group, prefix - engine._shared_prefix, tokens - prefix, min(new, prompt.max_new_tokens))

    return [[work(prompt) for prompt in unit] for unit in plan]


def group_prefixes(engine: TransformersEngine, prompts: Sequence[Prompt]) -> dict[str, int]:
    """How many first tokens the prompts of each relationship share, as a GPU computes them once."""
    groups: dict[str, list[list[int]]] = defaultdict(list)
    for prompt in prompts:
        groups[prompt.group].append(engine._tokens[prompt])
    return {group: common_prefix(members) for group, members in groups.items()}


def measured(engine: TransformersEngine, prompts: Sequence[Prompt], rows: int) -> Costs:
    """Costs on this machine: answers of two lengths tell apart what steps and what reading takes."""
    from dataclasses import replace

    few = prompts[:MEASURED_PROMPTS]
    engine.rows = rows
    lengths = engine.prepare(few)
    engine.answer([replace(few[0], max_new_tokens=1)], 0)  # computes the prefixes
    times = []
    for new in (2, 34):
        same = [replace(prompt, max_new_tokens=new) for prompt in few]
        engine.prepare(same)
        times.append(seconds(lambda same=same: engine.answer(same, 0))[0])
    waves = -(-len(few) // rows)
    step = (times[1] - times[0]) / (32 * waves)
    own = sum(length - engine._prefix_lengths[one.id][-1] for length, one in zip(lengths, few, strict=True))
    return Costs(step, max(0.0, times[0] - 2 * waves * step) / own)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--name", default="the demo model on this machine")
    options.add_argument("--rows", type=int, default=16)
    options.add_argument("--step-ms", type=float, help="milliseconds to decode one token in all rows")
    options.add_argument("--read-tokens-per-second", type=float)
    chosen = options.parse_args()
    loaded = load_model("demo")
    engine = TransformersEngine(loaded)
    records = chosen_rows()
    prompts = [prompt_of(row, sap=True) for row in records]
    units = plan_of_work(engine, loaded.tokenizer, prompts, {row["id"]: row["reference"] for row in records})
    if chosen.step_ms:
        costs = Costs(chosen.step_ms / 1000, 1 / chosen.read_tokens_per_second)
    else:
        costs = measured(engine, prompts, chosen.rows)
    results = [replay(units, ranks, chosen.rows, costs) for ranks in RANKS]
    # No plan is faster than the longest answer, or than an equal share of the work of one process.
    longest = costs.step * max(work.new for unit in units for work in unit)
    bounds = [max(longest, results[0][0] / ranks) for ranks in RANKS]
    write(
        f"Many processes, simulated: {chosen.name}",
        f"""
The work plan of the full corpus ({len(records)} records in {len(units)} units), replayed with {chosen.rows} rows per process,
{1000 * costs.step:.1f} ms per decoding step and {1 / costs.read:,.0f} prompt tokens read per second; answers as long as the references.
Busy: the share of the processes' time, from the start to the end of the last one, in which they work. Lower bound: the
longest answer ({longest:.1f} s), or an equal share of the work of one process. Loading a model is not included.

| processes | {" | ".join(map(str, RANKS))} |
|---|{"---:|" * len(RANKS)}
| seconds | {" | ".join(f"{end:.1f}" for end, _ in results)} |
| lower bound | {" | ".join(f"{bound:.1f}" for bound in bounds)} |
| busy, % | {" | ".join(f"{100 * busy:.1f}" for _, busy in results)} |
| times one process | {" | ".join(f"{results[0][0] / end:.1f}" for end, _ in results)} |
""",
        ["torch", "transformers"],
    )


if __name__ == "__main__":
    main()
