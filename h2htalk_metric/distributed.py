"""Score what several ranks hold in parts, across nodes too.

`evaluate`'s own distributed compute goes through a cache file on a common disk; this goes through Accelerate.
"""

__all__ = ["score_across_ranks"]

from collections.abc import Sequence
from typing import Any

from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.metrics.composite import Scores, score


def score_across_ranks(
    predictions: Sequence[str | None],
    references: Sequence[Any],
    *,
    language: str | Sequence[str] = "en",
    **options: Any,
) -> Scores:
    """Score the parts of all ranks as one list, in the order of ranks; every rank returns the same result.

    Args:
        predictions: this rank's answers; parts may differ in length, and may be empty.
        references: this rank's references, as in :func:`h2htalk_metric.score`.
        language: of this rank's items.
        options: passed on to :func:`h2htalk_metric.score`.

    Raises:
        H2HTalkError: on every rank, if any rank's input is wrong.
        RuntimeError: on every rank, if rank 0 could not score for any other reason, which it names.

    """
    languages = [language] * len(predictions) if isinstance(language, str) else list(language)
    parts = gather_object([(list(predictions), list(references), languages)])
    outcome: list[Any] = [None]
    cause = None
    if PartialState().is_main_process:
        # The others wait for this rank's word, so it sends its fault, whatever it is, instead of leaving them.
        try:
            outcome = [_score_all(parts, options)]
        except H2HTalkError as error:
            outcome = [error]
        except Exception as error:
            outcome = [RuntimeError(f"rank 0 could not score: {type(error).__name__}: {error}")]
            cause = error
    result = broadcast_object_list(outcome)[0]
    if isinstance(result, Exception):
        raise result from cause
    return result


def _score_all(parts: Sequence[tuple[list[Any], list[Any], list[str]]], options: dict[str, Any]) -> Scores:
    for rank, (answers, expected, spoken) in enumerate(parts):
        for name, given in (("references", expected), ("languages", spoken)):
            if len(answers) != len(given):
                raise H2HTalkError(f"rank {rank} has {len(answers)} predictions but {len(given)} {name}")
    answers, expected, spoken = ([item for part in parts for item in part[place]] for place in range(3))
    return score(answers, expected, language=spoken, **options)
