"""Answer prompts without a run folder, for evaluations in a training loop."""

__all__ = ["answer_all"]

from collections.abc import Sequence

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.distributed.queue import claim_next
from h2htalk_datasets.generation.distributed.state import DistributedState
from h2htalk_datasets.generation.engines.base import Answer, Engine, Failure, Prompt
from h2htalk_datasets.generation.engines.plan import make_plan


def answer_all(
    engine: Engine, prompts: Sequence[Prompt], *, seed: int, state: DistributedState, key: str
) -> list[Answer]:
    """Answer prompts on all ranks.

    Args:
        engine: one on each rank, with the same weights.
        prompts: the same on every rank.
        seed: of sampling.
        state: the ranks.
        key: of the queue; the same on every rank, new for every call.

    Returns:
        All answers on every rank, in the order of the prompts.

    Raises:
        H2HTalkError: a prompt has no answer, or another rank failed.

    """
    units = claim_next(make_plan(prompts, engine.prepare(prompts)), state.store, key)
    own: dict[str, Answer | Failure] = {}
    error: Exception | None = None
    try:
        for prompt, answer in engine.stream((prompt for unit in units for prompt in unit), seed):
            own[prompt.id] = answer
    except Exception as failure:  # the other ranks wait for this one, and a training loop has no watchdog to tell them
        error = failure
    reason = f"{type(error).__name__}: {error}" if error else None
    parts, reasons = zip(*state.all_gather((own, reason)), strict=True)
    if error:
        raise error
    if other := next(filter(None, reasons), None):
        raise H2HTalkError(f"another rank failed ({other})")
    results = {identity: result for part in parts for identity, result in part.items()}
    if failed := [result.reason for result in results.values() if isinstance(result, Failure)]:
        raise H2HTalkError(f"a prompt has no answer: {failed[0]}")
    return [results[prompt.id] for prompt in prompts]
