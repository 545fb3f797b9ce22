"""Split records by relationship: records of one relationship share persona and history."""

__all__ = ["split_by_relationship"]

import random
from collections.abc import Mapping, Sequence
from typing import Any


def split_by_relationship(
    rows: Sequence[Mapping[str, Any]], share: float, seed: int = 0
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Split records into two parts that have no relationship in common.

    Args:
        rows: records.
        share: of the relationships that the first part has, 0 to 1; each part gets at least one if there are two.
        seed: of the choice.

    Returns:
        The two parts, in the order of the records.

    """
    names = sorted({row["relationship"] for row in rows})
    count = min(max(round(share * len(names)), 1), len(names) - 1) if len(names) > 1 else len(names)
    chosen = set(random.Random(seed).sample(names, count))
    first = [row for row in rows if row["relationship"] in chosen]
    return first, [row for row in rows if row["relationship"] not in chosen]
