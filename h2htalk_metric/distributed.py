"""Score what several ranks hold in parts, also across nodes.

`evaluate`'s own distributed compute needs a cache file on a disk that all ranks share; this one uses Accelerate.
"""

__all__ = ["on_main_process", "score_across_ranks"]

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.metrics.composite import Scores, check_is_list, score

Result = TypeVar("Result")
_Part = tuple[list[Any], list[Any], list[str]]


def score_across_ranks(
    predictions: Sequence[str | None],
    references: Sequence[Any],
    *,
    language: str | Sequence[str] = "en",
    **options: Any,
) -> Scores:
    """Score the parts of all ranks as one list, in the order of ranks; every rank returns the same result.

    Args:
        predictions: answers of this rank; parts may differ in length and may be empty.
        references: references of this rank, as in :func:`h2htalk_metric.score`.
        language: of this rank's items.
        options: passed on to :func:`h2htalk_metric.score`.

    Raises:
        H2HTalkError: on every rank, if the input of any rank is wrong.
        RuntimeError: on every rank, if rank 0 could not score for any other reason, which it names.

    """
    rank = PartialState().process_index
    try:
        part: _Part | str = _checked_part(predictions, references, language)
    except (H2HTalkError, TypeError) as error:  # the other ranks wait in the gather, so the error travels through it
        part = f"rank {rank}: {error}"
    parts = gather_object([part])
    errors = [part for part in parts if isinstance(part, str)]
    if errors:
        raise H2HTalkError(errors[0])
    return on_main_process(lambda: _score_all(parts, options), "score")


def on_main_process(compute: Callable[[], Result], what: str) -> Result:
    """Compute on rank 0 and return the result, or raise the same error, on every rank.

    Args:
        compute: called on rank 0 only.
        what: names the work in the message of an unexpected error.

    Raises:
        H2HTalkError: on every rank, if `compute` raised one.
        RuntimeError: on every rank, if `compute` raised any other exception.

    """
    outcome: list[Any] = [None]
    cause = None
    if PartialState().is_main_process:
        try:
            outcome = [compute()]
        except H2HTalkError as error:
            outcome = [error]
        except Exception as error:  # the other ranks wait for this broadcast
            outcome = [RuntimeError(f"rank 0 could not {what}: {type(error).__name__}: {error}")]
            cause = error
    result = broadcast_object_list(outcome)[0]
    if isinstance(result, Exception):
        raise result from cause
    return result


def _checked_part(predictions: Any, references: Any, language: str | Sequence[str]) -> _Part:
    for name, value in (("predictions", predictions), ("references", references)):
        if value is None:
            raise H2HTalkError(f"{name} is None; give a list, which may be empty")
    check_is_list(predictions=predictions, references=references)
    answers, expected = list(predictions), list(references)
    languages = [language] * len(answers) if isinstance(language, str) else list(language)
    for name, values in (("references", expected), ("languages", languages)):
        if len(answers) != len(values):
            raise H2HTalkError(f"{len(answers)} predictions but {len(values)} {name}")
    return answers, expected, languages


def _score_all(parts: Sequence[_Part], options: dict[str, Any]) -> Scores:
    answers, expected, languages = ([item for part in parts for item in part[place]] for place in range(3))
    return score(answers, expected, language=languages, **options)
