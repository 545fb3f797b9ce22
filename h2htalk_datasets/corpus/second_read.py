"""The second read: ten records of each relationship, drawn by a seed and marked by a reader who did not write them.

`review.csv` holds the marks, 1 to 5, after mending; `before` is the average of the same four marks at first sight.
"""

__all__ = ["MARKS", "Review", "drawn", "read_reviews"]

import csv
import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from h2htalk_datasets.corpus.sources import SOURCES

MARKS = ("specific", "earned", "need_seen", "natural")
_PER_RELATIONSHIP = 10


@dataclass(frozen=True)
class Review:
    """One record's marks, 1 to 5 each, after mending; `before` their average at first sight, `note` what was wrong."""

    id: str
    marks: tuple[int, ...]
    before: float
    note: str

    @property
    def average(self) -> float:
        """The mean of the four marks."""
        return sum(self.marks) / len(self.marks)


def drawn(relationship: str, ids: Iterable[str]) -> list[str]:
    """The ten records of a relationship that are read again; the seed is its slug, so nobody chooses."""
    return sorted(random.Random(f"second read {relationship}").sample(sorted(ids), _PER_RELATIONSHIP))


def read_reviews(file: Path = SOURCES / "review.csv") -> list[Review]:
    """Read ``review.csv``."""
    with file.open(encoding="utf-8", newline="") as handle:
        return [
            Review(row["id"], tuple(int(row[mark]) for mark in MARKS), float(row["before"]), row["note"])
            for row in csv.DictReader(handle)
        ]
