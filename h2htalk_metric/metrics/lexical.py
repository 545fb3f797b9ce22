"""BLEU-1..4 and ROUGE-1/L of one answer against one reference, on tokens.

The same numbers as ``nltk.translate.bleu_score.sentence_bleu`` (smoothing method 1, uniform cumulative weights)
and ``rouge_score.rouge_scorer`` (F1), which the tests check to 1e-12. Faster, since n-grams are counted once for the
four orders and RapidFuzz computes the longest common subsequence.
"""

__all__ = ["LEXICAL", "bleu", "character_lexical", "lexical", "rouge_1", "rouge_l"]

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from functools import lru_cache

from rapidfuzz.distance import LCSseq

from h2htalk_metric.metrics.tokenizers import bleu_tokens, characters, rouge_tokens

LEXICAL = ("bleu1", "bleu2", "bleu3", "bleu4", "rouge1", "rougeL")

_EPSILON = 0.1  # NLTK's smoothing method 1: replaces a count of zero
_ORDERS = 4


def lexical(prediction: str, reference: str, language: str) -> tuple[float, ...]:
    """The six lexical components of one answer, each 0..1, in the order of :data:`LEXICAL`."""
    reference_words, reference_terms = _reference_tokens(reference, language)
    words, terms = bleu_tokens(prediction, language), rouge_tokens(prediction, language)
    return (*bleu(words, reference_words), rouge_1(terms, reference_terms), rouge_l(terms, reference_terms))


def character_lexical(prediction: str, reference: str) -> tuple[float, ...]:
    """The six lexical components with characters as tokens, each 0..1; for a figure next to S, never in it."""
    answer, expected = characters(prediction), characters(reference)
    return (*bleu(answer, expected), rouge_1(answer, expected), rouge_l(answer, expected))


def bleu(prediction: Sequence[str], reference: Sequence[str]) -> tuple[float, float, float, float]:
    """Sentence BLEU-1 to BLEU-4 (Papineni et al. 2002), cumulative, one reference, smoothing method 1 of NLTK.

    Args:
        prediction: tokens of the answer.
        reference: tokens of the reference.

    Returns:
        Four values, 0..1. All are 0 if no token is shared. With fewer than n tokens, BLEU-n of an identical pair is
        below 1, as in NLTK.

    """
    matches = _matches(prediction, reference)
    if matches[0] == 0:
        return (0.0, 0.0, 0.0, 0.0)
    totals = [max(1, len(prediction) - n) for n in range(_ORDERS)]  # at least 1, as in NLTK
    penalty = 1.0 if len(prediction) > len(reference) else math.exp(1 - len(reference) / len(prediction))
    logs = [math.log((match or _EPSILON) / total) for match, total in zip(matches, totals, strict=True)]
    one, two, three, four = (penalty * math.exp(math.fsum(logs[:n]) / n) for n in range(1, _ORDERS + 1))
    return (one, two, three, four)


def rouge_1(prediction: Sequence[str], reference: Sequence[str]) -> float:
    """ROUGE-1 F1 (Lin 2004) of token lists, 0..1."""
    return _f1(_overlap(prediction, reference), len(prediction), len(reference))


def rouge_l(prediction: Sequence[str], reference: Sequence[str]) -> float:
    """ROUGE-L F1 (Lin 2004) of token lists by their longest common subsequence, 0..1."""
    return _f1(LCSseq.similarity(prediction, reference), len(prediction), len(reference))


def _matches(prediction: Sequence[str], reference: Sequence[str]) -> list[int]:
    """Clipped matches of 1-grams to 4-grams; if no n-gram is shared, no longer one is."""
    matches = []
    for n in range(1, _ORDERS + 1):
        grams = [list(zip(*(tokens[k:] for k in range(n)), strict=False)) for tokens in (prediction, reference)]
        matches.append(_overlap(*grams))
        if not matches[-1]:
            break
    return matches + [0] * (_ORDERS - len(matches))


def _overlap(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Number of items that two lists share, with multiplicity."""
    return sum((Counter(one) & Counter(other)).values())


def _f1(overlap: int, predicted: int, expected: int) -> float:
    if overlap == 0:
        return 0.0
    precision, recall = overlap / predicted, overlap / expected
    return 2 * precision * recall / (precision + recall)


@lru_cache(maxsize=16_384)
def _reference_tokens(reference: str, language: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Tokens of a reference, cached: training loops and further models score against the same references."""
    return tuple(bleu_tokens(reference, language)), tuple(rouge_tokens(reference, language))
