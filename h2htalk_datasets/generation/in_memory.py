"""Answer prompts without a run folder: for evaluations inside a training loop."""

__all__ = ["answer_all"]

from collections.abc import Sequence

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.distributed.queue import Group, take
from h2htalk_datasets.generation.engines.base import Answer, Engine, Failure, Prompt
from h2htalk_datasets.generation.engines.plan import make_plan


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

    Raises:
        H2HTalkError: a prompt got no answer, or another rank could not go on.

    """
    plan = make_plan(prompts, engine.prepare(prompts), batch_size)
    by_id = {prompt.id: prompt for prompt in prompts}
    batches = (batch.asked(by_id, seed) for batch in take(plan, group.store, key))
    mine: dict[str, Answer | Failure] = {}
    fault: Exception | None = None
    try:
        for asked, answers in engine.stream(batches):
            mine.update(zip([prompt.id for prompt in asked.prompts], answers, strict=True))
    except Exception as error:  # the others wait for this rank; a training loop has nothing else that would tell them
        fault = error
    found: dict[str, Answer | Failure] = {}
    told = []
    for part, reason in group.gather((mine, fault and f"{type(fault).__name__}: {fault}")):
        found.update(part)
        told += [reason] if reason else []
    if fault:
        raise fault
    if told:
        raise H2HTalkError(f"another rank could not go on ({told[0]})")
    failed = next((answer.reason for answer in found.values() if isinstance(answer, Failure)), None)
    if failed is not None:
        raise H2HTalkError(f"a prompt got no answer: {failed}")
    return [answer for prompt in prompts if isinstance(answer := found[prompt.id], Answer)]
