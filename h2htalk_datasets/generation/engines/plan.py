"""The batch plan: a pure function of the prompts, their lengths and the batch size.

It is the same at every world size, so answers do not depend on the number of ranks. A batch has prompts of one group
only, which start with the same tokens. Within a group, prompts with similar limits of new tokens are batched together,
so that short answers do not wait for long ones. The longest batches come first, so that all ranks end at about the
same time: those with the highest limit, and among these the ones with the most text to read.
"""

__all__ = ["BatchSpec", "make_plan"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from os.path import commonprefix

from h2htalk_datasets.generation.engines.base import Batch, Prompt


@dataclass(frozen=True)
class BatchSpec:
    """One batch of the plan.

    Attributes:
        number: its place in the plan.
        ids: of its records.

    """

    number: int
    ids: tuple[str, ...]

    def seed(self, run_seed: int) -> int:
        """Return a 63-bit seed that depends on the run's seed and the batch's content, not on the rank."""
        content = f"{run_seed}:{','.join(self.ids)}".encode()
        return int.from_bytes(sha256(content).digest()[:8], "big") >> 1

    def batch(self, prompts: Mapping[str, Prompt], run_seed: int) -> Batch:
        """Return the batch for an engine, from the run's prompts by id."""
        return Batch(tuple(prompts[identity] for identity in self.ids), self.seed(run_seed))


def make_plan(prompts: Sequence[Prompt], lengths: Sequence[int], batch_size: int) -> list[BatchSpec]:
    """Divide prompts into batches.

    Args:
        prompts: all prompts of the run.
        lengths: their lengths in tokens, in the same order.
        batch_size: prompts per batch, at most.

    Returns:
        Batches, the longest expected first; every prompt is in exactly one.

    Raises:
        ValueError: prompts and lengths differ in number, or the batch size is below 1.

    """
    if len(prompts) != len(lengths):
        raise ValueError(f"{len(prompts)} prompts but {len(lengths)} lengths")
    if batch_size < 1:
        raise ValueError(f"the batch size must be at least 1, got {batch_size}")
    ordered = sorted(
        zip(prompts, lengths, strict=True),
        key=lambda pair: (pair[0].group, -pair[0].max_new_tokens, -pair[1], pair[0].id),
    )
    batches: list[tuple[int, int, tuple[str, ...]]] = []
    for _, members in groupby((prompt for prompt, _ in ordered), key=lambda prompt: prompt.group):
        group = list(members)
        for start in range(0, len(group), batch_size):
            part = group[start : start + batch_size]
            new_tokens = max(prompt.max_new_tokens for prompt in part)
            batches.append((-new_tokens, -_characters_to_read(part), tuple(prompt.id for prompt in part)))
    return [BatchSpec(number, ids) for number, (_, _, ids) in enumerate(sorted(batches))]


def _characters_to_read(prompts: Sequence[Prompt]) -> int:
    """Count what an engine reads for a batch if it reads the common prefix of the prompts once."""
    texts = ["".join(message["content"] for message in prompt.messages) for prompt in prompts]
    shared = len(commonprefix(texts))  # noqa: RUF071 of texts, not of paths
    return sum(map(len, texts)) - (len(texts) - 1) * shared
