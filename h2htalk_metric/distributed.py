"""Score what several ranks hold in parts, across nodes too.

`evaluate`'s own distributed compute goes through a cache file on a common disk; this goes through Accelerate.
"""

__all__ = ["score_across_ranks"]

from collections.abc import Sequence
from typing import Any

from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.composite import Scores, score


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

    """
    languages = [language] * len(predictions) if isinstance(language, str) else list(language)
    parts = gather_object([(list(predictions), list(references), languages)])
    outcome: list[Scores | str | None] = [None]
    if PartialState().is_main_process:
        try:
            for rank, (answers, expected, _) in enumerate(parts):
                if len(answers) != len(expected):
                    raise H2HTalkError(f"rank {rank} has {len(answers)} predictions but {len(expected)} references")
            answers, expected, spoken = ([item for part in parts for item in part[place]] for place in range(3))
            outcome = [score(answers, expected, language=spoken, **options)]
        except H2HTalkError as error:
            # The others wait for this rank's word, so it sends the fault instead of leaving them.
            outcome = [str(error)]
    result = broadcast_object_list(outcome)[0]
    if not isinstance(result, Scores):
        raise H2HTalkError(str(result))
    return result
