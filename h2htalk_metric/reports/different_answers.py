"""The records on which compared runs differ most, with their answers next to each other."""

__all__ = ["DifferentAnswers", "most_different"]

from dataclasses import dataclass

import numpy as np

from h2htalk_datasets.prompts import render
from h2htalk_metric.metrics.tokenizers import clean
from h2htalk_metric.reports.run_tables import by_dimension
from h2htalk_metric.runs.groups import RunGroup

_MOST_ANSWERS = 6  # of one record that are shown: half of them with the highest S, half with the lowest


@dataclass(frozen=True)
class DifferentAnswers:
    """One record and its answers; every text may be untrusted.

    Attributes:
        id: of the record.
        spread: highest minus lowest S times 100.
        prompt: what the models were sent, without the system message.
        reference: of the record.
        answers: label of the run, S times 100 as text, and the answer, highest S first.

    """

    id: str
    spread: float
    prompt: str
    reference: str
    answers: list[tuple[str, str, str]]


def most_different(group: RunGroup, per_task: int = 2) -> dict[str, list[DifferentAnswers]]:
    """The records of each config whose S differs most between the runs; empty answers do not count.

    Args:
        group: runs over the same records.
        per_task: number of records of each config.

    Raises:
        H2HTalkError: a run is not complete, or the installed dataset is not that of the runs.

    """
    items = group.first.items
    scores = np.stack(
        [(100 * one.items["composite"]).where(~one.items["empty"]).to_numpy() for one in group.scores.values()]
    )
    answered = (~np.isnan(scores)).sum(axis=0) > 1
    spread = np.full(scores.shape[1], -1.0)
    spread[answered] = np.nanmax(scores[:, answered], axis=0) - np.nanmin(scores[:, answered], axis=0)
    result = {}
    for task in by_dimension(dict.fromkeys(items["task"])):
        places = np.flatnonzero(((items["task"] == task) & answered).to_numpy())
        ranked = places[np.argsort(-spread[places], kind="stable")][:per_task]
        if len(ranked):
            result[task] = [_record(group, int(place), float(spread[place]), scores[:, place]) for place in ranked]
    return result


def _record(group: RunGroup, place: int, spread: float, scores: np.ndarray) -> DifferentAnswers:
    record = next(iter(group.runs.values())).records[place]
    answers = [
        (label, score, clean(run.predictions[place]["prediction"]))
        for (label, run), score in zip(group.runs.items(), scores, strict=True)
        if not np.isnan(score)
    ]
    answers.sort(key=lambda answer: -answer[1])
    if len(answers) > _MOST_ANSWERS:
        answers = answers[: _MOST_ANSWERS // 2] + answers[-(_MOST_ANSWERS // 2) :]
    return DifferentAnswers(
        id=record["id"],
        spread=spread,
        prompt="\n\n".join(message["content"] for message in render(record) if message["role"] != "system"),
        reference=record["reference"],
        answers=[(label, f"{score:.1f}", text) for label, score, text in answers],
    )
