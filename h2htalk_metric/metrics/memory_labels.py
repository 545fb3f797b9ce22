"""RecollectionSynthesis without its labels.

Three labels per memory raise the score of any well-formed answer. Therefore the report shows next to S (and never in
S): the same composite on the contents alone, how often matched memories agree on the category, and the mean error of
their importance.
"""

__all__ = ["contents", "label_agreement"]

from typing import NamedTuple

import numpy as np
from rapidfuzz import fuzz, process
from scipy.optimize import linear_sum_assignment

from h2htalk_datasets.answer_format import FactMemory, parse_memories, strip_scaffold


class Agreement(NamedTuple):
    """Agreement of one answer's labels with the reference's, over memories matched by their contents.

    Attributes:
        category: share of the reference's memories whose match has the same category, 0..1.
        importance_error: mean absolute difference of importance over the matched, 0..2.

    """

    category: float
    importance_error: float


def contents(text: str) -> str:
    """The memories of an answer without labels; text in another format is returned unchanged."""
    return strip_scaffold(text) or text


def label_agreement(prediction: str, reference: str, language: str = "en") -> Agreement | None:
    """Compare the labels of memories, matched one to one by similarity of their contents (RapidFuzz ratio).

    Args:
        prediction: an answer.
        reference: what it is compared with.
        language: code of the language of both.

    Returns:
        None if one of the texts has no memory in the expected format; the format rate counts such answers.

    """
    expected, predicted = _read(reference, language), _read(prediction, language)
    if not expected or not predicted:
        return None
    similarity = process.cdist([m.content for m in expected], [m.content for m in predicted], scorer=fuzz.ratio)
    rows, columns = linear_sum_assignment(similarity, maximize=True)
    pairs = [(expected[row], predicted[column]) for row, column in zip(rows, columns, strict=True)]
    same = sum(one.category == other.category for one, other in pairs)
    errors = [abs(one.importance - other.importance) for one, other in pairs]
    return Agreement(same / len(expected), float(np.mean(errors)))


def _read(text: str, language: str) -> list[FactMemory]:
    try:
        return parse_memories(text, language)
    except ValueError:
        return []
