"""RecollectionSynthesis without its labels.

Three labels a memory lift any well-formed answer, so beside S (and never in it) stand: the same composite on the
contents alone, how often matched memories agree on the category, and how far their importance is off.
"""

__all__ = ["contents", "label_agreement"]

from typing import NamedTuple

import numpy as np
from rapidfuzz import fuzz, process
from scipy.optimize import linear_sum_assignment

from h2htalk_datasets.answer_format import FactMemory, parse_memories, strip_scaffold


class Agreement(NamedTuple):
    """How one answer's labels agree with the reference's, over memories matched by their contents.

    Attributes:
        category: share of the reference's memories whose match has the same category, 0..1.
        importance_error: mean absolute difference of importance over the matched, 0..2.

    """

    category: float
    importance_error: float


def contents(text: str) -> str:
    """An answer's memories without labels; text of another form stays as it is."""
    return strip_scaffold(text) or text


def label_agreement(prediction: str, reference: str) -> Agreement | None:
    """Compare labels of memories matched one to one by the likeness of their contents (RapidFuzz ratio).

    None where either has no memory that can be read: there is nothing to compare, which the contract figures count.
    """
    expected, given = _read(reference), _read(prediction)
    if not expected or not given:
        return None
    likeness = process.cdist([m.content for m in expected], [m.content for m in given], scorer=fuzz.ratio)
    rows, columns = linear_sum_assignment(likeness, maximize=True)
    pairs = [(expected[row], given[column]) for row, column in zip(rows, columns, strict=True)]
    same = sum(one.category == other.category for one, other in pairs)
    errors = [abs(one.importance - other.importance) for one, other in pairs]
    return Agreement(same / len(expected), float(np.mean(errors)))


def _read(text: str) -> list[FactMemory]:
    try:
        return parse_memories(text)
    except ValueError:
        return []
