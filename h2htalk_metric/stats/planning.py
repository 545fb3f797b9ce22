"""How many records a comparison of two runs needs, from the variance of earlier differences.

The variance of a mean difference has two parts: one between relationships, which more records of the same relationships
do not reduce, and one within them. Both are estimated per cell of Table 2 from paired differences of two runs.
"""

__all__ = ["CellPlan", "plan", "proxy_differences"]

import json
import math
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from h2htalk_metric.stats.clusters import ClusterSums
from h2htalk_metric.stats.intervals import minimum_detectable_difference, standard_error

_PROXY_FILE = Path(__file__).with_name("proxy_differences.json")
_MOST_RELATIONSHIPS = 100_000


class CellPlan(NamedTuple):
    """What one cell of Table 2 needs to show a difference (80% power, 5% level).

    Attributes:
        cell: config, average or Overall.
        records: number of records behind the cell in the given differences.
        relationships: number of relationships behind it.
        detectable: smallest difference that these records show, on the scale of the differences.
        limit: records per config that are enough, evenly spread over the relationships; None if all are too few.
        relationships_needed: relationships of this size that are enough; None if more than 100,000 are needed.

    """

    cell: str
    records: int
    relationships: int
    detectable: float
    limit: int | None
    relationships_needed: int | None


def plan(differences: ClusterSums, difference: float) -> list[CellPlan]:
    """Plan a comparison.

    Args:
        differences: item differences of two runs over the same records, with their squares.
        difference: the smallest true difference that the test has to show, on the same scale, above 0.

    Returns:
        One plan per cell, configs first, as in :meth:`ClusterSums.cells`.

    """
    return [
        _cell_plan(cell, _Variance.of(differences, weights), difference) for cell, weights in _cells_of(differences)
    ]


def _cells_of(differences: ClusterSums) -> list[tuple[str, np.ndarray]]:
    """Cells with at least two relationships, and their weights."""
    return [(cell, weights) for cell, weights in differences.cells().items() if differences.num_clusters(weights) > 1]


def proxy_differences() -> ClusterSums:
    """Shipped differences in S times 100 of a 135M model minus another record's reference, over all records.

    They vary more than differences of two similar models do, so plans that use them are on the safe side.
    ``benchmarks/proxies.py`` makes the file.
    """
    stored = json.loads(_PROXY_FILE.read_text("utf-8"))
    arrays = {key: np.array(stored[key], dtype=float) for key in ("sums", "counts", "squares")}
    return ClusterSums(tuple(stored["tasks"]), **arrays)


class _Variance(NamedTuple):
    """The variance of a cell's mean difference.

    Attributes:
        between: part that depends on the number of relationships only.
        within: variance of single items within relationships, times the squared weight, per config of the cell.
        counts: records per config of the cell.
        relationships: number of relationships.

    """

    between: float
    within: np.ndarray
    counts: np.ndarray
    relationships: int

    @classmethod
    def of(cls, differences: ClusterSums, weights: np.ndarray) -> "_Variance":
        involved = weights != 0
        counts = differences.counts.sum(axis=0)[involved]
        with np.errstate(invalid="ignore", divide="ignore"):
            explained = np.nansum(differences.sums**2 / differences.counts, axis=0)[involved]
        freedom = np.maximum(counts - (differences.counts[:, involved] > 0).sum(axis=0), 1)
        within = weights[involved] ** 2 * np.maximum(differences.squares[involved] - explained, 0) / freedom
        between = standard_error(differences, weights) ** 2 - float((within / counts).sum())
        return cls(max(between, 0.0), within, counts, differences.num_clusters(weights))

    def detectable(self, limit: float = math.inf, relationships: int | None = None) -> float:
        """Smallest detectable difference with at most `limit` records per config, or with other relationships."""
        if relationships is not None:
            scale = self.relationships / relationships
            variance, clusters = scale * (self.between + float((self.within / self.counts).sum())), relationships
        else:
            counts = np.minimum(self.counts, limit)
            clusters = int(min(self.relationships, counts.max()))
            variance = self.between * self.relationships / clusters + float((self.within / counts).sum())
        return minimum_detectable_difference(math.sqrt(variance), clusters) if variance else 0.0


def _cell_plan(cell: str, variance: _Variance, difference: float) -> CellPlan:
    limits, numbers = range(2, int(variance.counts.max()) + 1), range(2, _MOST_RELATIONSHIPS + 1)
    limit = _first(limits, lambda size: variance.detectable(limit=size) <= difference)
    relationships = _first(numbers, lambda number: variance.detectable(relationships=number) <= difference)
    records = int(variance.counts.sum())
    return CellPlan(cell, records, variance.relationships, variance.detectable(), limit, relationships)


def _first(numbers: range, is_enough: Callable[[int], bool]) -> int | None:
    """The first number that is enough, by bisection; None if none is."""
    place = bisect_left(numbers, True, key=is_enough)
    return numbers[place] if place < len(numbers) else None
