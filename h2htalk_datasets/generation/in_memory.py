"""Answer prompts without a run folder: for evaluations inside a training loop."""

__all__ = ["answer_all"]

from collections.abc import Sequence

from h2htalk_datasets.generation.engine import Answer, Engine, Prompt
from h2htalk_datasets.generation.plan import make_plan
from h2htalk_datasets.generation.work_queue import Group, take


def answer_all(
    engine: Engine, prompts: Sequence[Prompt], *, batch_size: int, seed: int, group: Group, key: str
) -> list[Answer]:
    """Answer prompts on all ranks of a group; every rank returns all answers, in the prompts' order.

    Args:
        engine: one on each rank, with the same weights.
        prompts: the same on every rank.
        batch_size: prompts a batch.
        seed: of sampling.
        group: the ranks.
        key: names the queue; the same on every rank, new for every call.

    """
    plan = make_plan(prompts, engine.prepare(prompts), batch_size)
    by_id = {prompt.id: prompt for prompt in prompts}
    mine: dict[str, Answer] = {}
    for batch in take(plan, group.store, key):
        answers = engine.answer([by_id[identity] for identity in batch.ids], batch.seed(seed))
        mine.update(zip(batch.ids, answers, strict=True))
    found: dict[str, Answer] = {}
    for part in group.gather(mine):
        found.update(part)
    return [found[prompt.id] for prompt in prompts]
