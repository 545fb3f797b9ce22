"""H2HTalk for Inspect: all configs in one task, a token limit per config, metrics by config."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from anyio.to_thread import run_sync
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample, json_dataset
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, GenerateConfig
from inspect_ai.scorer import Score, Scorer, Target, grouped, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import concurrency

from h2htalk_datasets.generation.engines.reasoning import cut_reasoning
from h2htalk_metric import score

_HERE = Path(__file__).parent
_EXPORT = json.loads((_HERE / "h2htalk_export.json").read_text("utf-8"))


@task
def h2htalk(tasks: str | list[str] = "all") -> Task:
    """The exported configs, or some of them (-T tasks=DialogueBase,ItineraryMiddle)."""
    configs = tasks.split(",") if isinstance(tasks, str) else tasks
    if configs == ["all"]:
        configs = list(_EXPORT["tasks"])
    files = [_HERE / "data" / config / "test.jsonl" for config in configs]
    samples = [sample for file in files for sample in json_dataset(str(file), _sample)]
    return Task(
        dataset=MemoryDataset(samples, name="h2htalk"),
        solver=answer(),
        scorer=composite(),
        config=GenerateConfig(temperature=0),
        metadata={key: _EXPORT[key] for key in ("h2htalk", "embedder", "dataset", "prompts")},
    )


def _sample(record: dict[str, Any]) -> Sample:
    return Sample(
        id=record["id"],
        input=[ChatMessageSystem(content=record["system"]), ChatMessageUser(content=record["prompt"])],
        target=record["reference"],
        metadata={"task": record["task"], "language": record["language"]},
    )


@solver
def answer() -> Solver:
    """Generate one answer, with the token limit of its config."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        return await generate(state, max_tokens=_EXPORT["tasks"][state.metadata["task"]]["max_new_tokens"])

    return solve


# "all" is the mean over all samples, which is Overall if all eleven configs are complete.
@scorer(metrics={"composite": [grouped(mean(), "task", all="samples"), stderr()], "*": [mean()]})
def composite() -> Scorer:
    """The seven components of an answer, without its thoughts, and its composite, 0..1."""

    async def score_sample(state: TaskState, target: Target) -> Score:
        text = cut_reasoning(state.output.completion)[0]
        work = partial(score, language=state.metadata["language"], embedder=_EXPORT["embedder"])
        # In a thread, so that requests to the model go on; one at a time, since all use one embedder.
        async with concurrency("h2htalk-score", 1, visible=False):
            scores = await run_sync(work, [text], [target.text])
        return Score(value=dict(scores.rows()[0]), answer=text)

    return score_sample
