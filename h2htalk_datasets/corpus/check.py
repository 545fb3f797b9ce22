"""One check of the corpus: a measured value, its limit and the offenders."""

__all__ = ["Check", "per_file", "share", "worst_file"]

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from h2htalk_datasets.schema import Record

Item = TypeVar("Item")


@dataclass(frozen=True)
class Check:
    """One rule and what was measured.

    Attributes:
        rule: what must hold, in words.
        value: the measured share (0..1) or number.
        limit: the largest allowed value, or the smallest if `at_least`.
        at_least: whether the limit is a lower one.
        offenders: lines ``where: what``; also listed when a share is within its limit.
        is_advice: whether a violation is only reported, as for a user's own corpus.

    """

    rule: str
    value: float
    limit: float
    at_least: bool = False
    offenders: list[str] = field(default_factory=list)
    is_advice: bool = False

    @classmethod
    def no_offenders(cls, rule: str, offenders: Iterable[str]) -> "Check":
        """A check that fails if there is any offender."""
        lines = list(offenders)
        return cls(rule, len(lines), 0, offenders=lines)

    def as_advice(self, about: str) -> "Check":
        """The same check, whose violation is only reported; `about` stands before its rule."""
        return replace(self, rule=f"{about}: {self.rule}", is_advice=True)

    @property
    def passed(self) -> bool:
        """Whether the value is within the limit."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def worst_file(
    rule: str, records: Sequence[Record], limit: float, has: Callable[[Record], bool], *, at_least: bool = False
) -> Check:
    """The share of records that have a property, in the relationship file with the largest (or smallest) share."""
    shares = {file: share(own, has) for file, own in sorted(per_file(records).items())}
    worst = (min if at_least else max)(shares.values(), default=limit)
    offenders = [
        f"{file}: {value:.0%}" for file, value in shares.items() if (value < limit if at_least else value > limit)
    ]
    return Check(rule, worst, limit, at_least, offenders)


def per_file(records: Iterable[Record]) -> dict[str, list[Record]]:
    """The records of each relationship."""
    by_file: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_file[record.relationship].append(record)
    return dict(by_file)


def share(items: Sequence[Item], has: Callable[[Item], bool]) -> float:
    """Share of the items that have a property, 0..1; 0 if there are none."""
    return sum(map(has, items)) / len(items) if items else 0.0
