"""The work plan: a pure function of the prompts and their lengths, the same on every rank.

A unit has a few prompts of one group, which start with the same tokens. Units with long answers come first, so that all
ranks end at about the same time.
"""

__all__ = ["UNIT_SIZE", "make_plan"]

from collections.abc import Sequence
from itertools import groupby

from h2htalk_datasets.generation.engines.base import Prompt

UNIT_SIZE = 8
"""Prompts that a rank claims at once."""


def make_plan(
    prompts: Sequence[Prompt], lengths: Sequence[int], unit_size: int = UNIT_SIZE
) -> list[tuple[Prompt, ...]]:
    """Divide prompts into units of work.

    Args:
        prompts: all prompts of the run.
        lengths: their lengths in tokens, in the same order.
        unit_size: prompts per unit, at most.

    Returns:
        Units, the longest answers first; every prompt is in exactly one.

    Raises:
        ValueError: prompts and lengths differ in number, or the size is below 1.

    """
    if len(prompts) != len(lengths):
        raise ValueError(f"{len(prompts)} prompts but {len(lengths)} lengths")
    if unit_size < 1:
        raise ValueError(f"the size of a unit must be at least 1, got {unit_size}")
    ordered = sorted(
        zip(prompts, lengths, strict=True),
        key=lambda pair: (pair[0].group, -pair[0].max_new_tokens, pair[0].task, -pair[1], pair[0].id),
    )
    units = []
    for _, members in groupby(ordered, key=lambda pair: pair[0].group):
        group = list(members)
        units += [group[start : start + unit_size] for start in range(0, len(group), unit_size)]

    def longest_first(unit: Sequence[tuple[Prompt, int]]) -> tuple[int, int, str]:
        return -max(prompt.max_new_tokens for prompt, _ in unit), -sum(length for _, length in unit), unit[0][0].id

    return [tuple(prompt for prompt, _ in unit) for unit in sorted(units, key=longest_first)]
