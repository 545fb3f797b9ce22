"""The answers of a run as the HTML report shows them: prompt, answer, reference, numbers, flags, judgements."""

__all__ = ["FLAGS", "JUDGED_FLAGS", "JUDGED_NUMBERS", "Answer", "extremes", "packed", "read_answers"]

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pandas as pd

from h2htalk_datasets.generation.requests import templates_of
from h2htalk_datasets.languages import LANGUAGES
from h2htalk_datasets.prompts import render
from h2htalk_metric.judge.judged_run import JudgedRun, read_judged
from h2htalk_metric.judge.judgement import Judgement
from h2htalk_metric.metrics.composite import COMPONENTS
from h2htalk_metric.metrics.tokenizers import clean
from h2htalk_metric.runs.run import Run, cached_per_run
from h2htalk_metric.runs.scoring import scored_rows

FLAGS = ("format error", "cut off", "empty")
"""Possible flags of an answer; the filter of the page offers them."""
JUDGED_FLAGS = ("flagged", "unscored", "reviewed")
"""Further flags of an answer that judges or people mark."""
JUDGED_NUMBERS = {"J": "j", "J_judge": "judge_score", "people": "human_score"}
"""Numbers of a judged answer, 0..5, and the columns of :class:`JudgedRun` that hold them."""
_NOT_SENT = ("answer_length", "reference_length")  # fields that the script of the page does not need


@dataclass(frozen=True)
class Answer:
    """One answer; every text may be untrusted.

    Attributes:
        id: of the record.
        task: its config.
        language: code of its language.
        s: composite times 100, as text.
        components: the seven components times 100, as text.
        flags: some of :data:`FLAGS` and :data:`JUDGED_FLAGS`.
        format_error: how the answer violates its format, or "".
        prompt: what the model was sent, without the system message.
        answer: the prediction.
        reference: of the record.
        system: the system message.
        answer_length: number of words or characters of the answer.
        reference_length: of the reference.
        judged: :data:`JUDGED_NUMBERS` as text; empty if the answer is not for judges or people.
        marks: a line per judge.
        reasons: a line per reason of a judge.

    """

    id: str
    task: str
    language: str
    s: str
    components: tuple[str, ...]
    flags: tuple[str, ...]
    format_error: str
    prompt: str
    answer: str
    reference: str
    system: str
    answer_length: int
    reference_length: int
    judged: tuple[str, ...] = ()
    marks: str = ""
    reasons: str = ""


@cached_per_run
def read_answers(run: Run) -> list[Answer]:
    """The answers of a scored run with their judgements, in the order of the records.

    Raises:
        H2HTalkError: the scores are of other records than the answers, or the installed dataset is not the run's.

    """
    principles, templates = run.manifest["prompts"]["sap"], templates_of(run.manifest)
    answers = [
        _answer(row, record, line["prediction"], render(record, principles, templates))
        for row, record, line in zip(scored_rows(run), run.records, run.predictions, strict=True)
    ]
    judged = read_judged(run)
    return _with_judgements(answers, judged) if judged else answers


def extremes(answers: Sequence[Answer], most: int = 3) -> tuple[list[Answer], list[Answer]]:
    """The answers with the lowest S, lowest first, and with the highest, highest first.

    No answer is in both lists, and empty answers are in neither.
    """
    ranked = sorted((answer for answer in answers if "empty" not in answer.flags), key=lambda answer: float(answer.s))
    lowest = ranked[: min(most, (len(ranked) + 1) // 2)]
    return lowest, ranked[len(lowest) :][-most:][::-1]


def packed(answers: Sequence[Answer]) -> str:
    """All answers for the script of the page: JSON, gzipped, in base64, so no text can end its HTML element.

    Many answers share paragraphs of the system message, so it is a list of indices into ``paragraphs``.
    """
    paragraphs: dict[str, int] = {}
    rows = []
    for answer in answers:
        indices = [paragraphs.setdefault(part, len(paragraphs)) for part in answer.system.split("\n\n")]
        rows.append({key: value for key, value in asdict(answer).items() if key not in _NOT_SENT} | {"system": indices})
    content = {
        "columns": list(rows[0]) if rows else [],
        "rows": [list(row.values()) for row in rows],
        "paragraphs": list(paragraphs),
    }
    return base64.b64encode(gzip.compress(json.dumps(content, ensure_ascii=False).encode(), mtime=0)).decode()


def _answer(
    row: Mapping[str, Any], record: dict[str, Any], prediction: str, messages: Sequence[Mapping[str, str]]
) -> Answer:
    text = clean(prediction)
    count = LANGUAGES[record["language"]].count
    error = row["format_error"] if isinstance(row["format_error"], str) else ""
    present = zip(FLAGS, (error, row["finish_reason"] == "length", row["empty"]), strict=True)
    return Answer(
        id=row["id"],
        task=row["task"],
        language=record["language"],
        s=f"{100 * row['composite']:.1f}",
        components=tuple(f"{100 * row[name]:.1f}" for name in COMPONENTS),
        flags=tuple(flag for flag, is_set in present if is_set),
        format_error="" if row["empty"] else clean(error),
        prompt="\n\n".join(message["content"] for message in messages if message["role"] != "system"),
        answer=text,
        reference=record["reference"],
        system="\n\n".join(message["content"] for message in messages if message["role"] == "system"),
        answer_length=count(text),
        reference_length=count(record["reference"]),
    )


def _with_judgements(answers: Sequence[Answer], judged: JudgedRun) -> list[Answer]:
    rows = {row["id"]: row for row in judged.items.to_dict("records")}
    by_id: dict[str, list[Judgement]] = {}
    for judgement in judged.judgements:
        by_id.setdefault(judgement.record_id, []).append(judgement)
    return [
        _with_judgement(answer, rows[answer.id], by_id.get(answer.id, [])) if answer.id in rows else answer
        for answer in answers
    ]


def _with_judgement(answer: Answer, row: Mapping[str, Any], judgements: Sequence[Judgement]) -> Answer:
    has_human_score, is_unscored = not pd.isna(row["human_score"]), not pd.isna(row["unscored"])
    marks = [f"{one.judge_model}: {_scores(one.scores)}" for one in judgements]
    if is_unscored:
        marks.append(f"unscored: {row['unscored']}")
    if not marks and has_human_score:
        marks.append("people only")
    reasons = [
        f"{one.judge_model}, {position.replace('_', ' ')}: {explanation}"
        for one in judgements
        for position, explanations in one.explanations.items()
        for explanation in explanations
    ]
    present = zip(JUDGED_FLAGS, (row["flagged"], is_unscored, has_human_score), strict=True)
    return replace(
        answer,
        flags=answer.flags + tuple(flag for flag, is_set in present if is_set),
        judged=tuple("–" if pd.isna(row[column]) else f"{row[column]:.2f}" for column in JUDGED_NUMBERS.values()),
        marks=_lines(marks),
        reasons=_lines(reasons),
    )


def _scores(scores: Mapping[str, float]) -> str:
    return " · ".join(f"{criterion.replace('_', ' ')} {round(score, 2):g}" for criterion, score in scores.items())


def _lines(texts: Sequence[str]) -> str:
    """One line per text: line breaks inside a text would make it look like two."""
    return "\n".join(" ".join(clean(text).split()) for text in texts)
