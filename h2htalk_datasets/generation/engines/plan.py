"""The batch plan: a pure function of prompts, their lengths and the batch size.

It is the same at every world size, so the answers do not depend on how many ranks took part. What shares a
batch is one relationship, whose prompts begin with the same tokens; within it, prompts of like answer length
sit together, so that short answers do not wait for long ones. The longest batches come first, which balances
the ranks' ends: those with the most room for answers, and of them those that read the most.
"""

__all__ = ["Batch", "make_plan"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from os.path import commonprefix

from h2htalk_datasets.generation.engines.base import Asked, Prompt


@dataclass(frozen=True)
class Batch:
    """Prompts answered together: their ids, and the number that names the batch and seeds its sampling."""

    number: int
    ids: tuple[str, ...]

    def seed(self, run_seed: int) -> int:
        """A 63-bit seed from the run's seed and the batch's content, never from a rank."""
        content = f"{run_seed}:{','.join(self.ids)}".encode()
        return int.from_bytes(sha256(content).digest()[:8], "big") >> 1

    def asked(self, prompts: Mapping[str, Prompt], run_seed: int) -> Asked:
        """The batch as an engine gets it, from the run's prompts by id."""
        return Asked(tuple(prompts[identity] for identity in self.ids), self.seed(run_seed))


def make_plan(prompts: Sequence[Prompt], lengths: Sequence[int], batch_size: int) -> list[Batch]:
    """Cut prompts into batches.

    Args:
        prompts: all prompts of the run.
        lengths: their lengths in tokens, in the same order.
        batch_size: prompts a batch at most; the user's, or found at a run's first start and kept in its manifest.

    Returns:
        Batches, the longest expected first; every prompt in exactly one.

    Raises:
        ValueError: prompts and lengths differ in number, or the batch size is not positive.

    """
    if len(prompts) != len(lengths):
        raise ValueError(f"{len(prompts)} prompts but {len(lengths)} lengths")
    if batch_size < 1:
        raise ValueError(f"the batch size must be at least 1, got {batch_size}")
    measured = sorted(
        zip(prompts, lengths, strict=True),
        key=lambda pair: (pair[0].group, -pair[0].max_new_tokens, -pair[1], pair[0].id),
    )
    cut: list[tuple[int, int, tuple[str, ...]]] = []
    for _, members in groupby(measured, key=lambda pair: pair[0].group):
        group = list(members)
        for start in range(0, len(group), batch_size):
            part = [prompt for prompt, _ in group[start : start + batch_size]]
            longest = max(prompt.max_new_tokens for prompt in part)
            cut.append((longest, _characters_read(part), tuple(prompt.id for prompt in part)))
    cut.sort(key=lambda batch: (-batch[0], -batch[1], batch[2]))
    return [Batch(number, ids) for number, (_, _, ids) in enumerate(cut)]


def _characters_read(prompts: Sequence[Prompt]) -> int:
    """What an engine reads for a batch if it reads only once what all its prompts begin with."""
    texts = ["".join(message["content"] for message in prompt.messages) for prompt in prompts]
    shared = len(commonprefix(texts))  # noqa: RUF071 of texts, not of paths
    return sum(map(len, texts)) - (len(texts) - 1) * shared
