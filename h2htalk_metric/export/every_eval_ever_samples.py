"""The answers of a run as Every Eval Ever's lines: one per answer and result that the answer is part of."""

__all__ = ["sample_lines"]

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pandas as pd

from h2htalk_metric.export.every_eval_ever_results import IS_CORRECT, name_of
from h2htalk_metric.export.figures import JUDGE_SCORE, J, Metric, S
from h2htalk_metric.export.results import RunResults, ScoredAnswer
from h2htalk_metric.export.schema_texts import as_texts
from h2htalk_metric.metrics.composite import COMPONENTS
from h2htalk_metric.metrics.tokenizers import clean

_ROUNDING = 1e-6  # the cosine of equal texts is not exactly 1


def sample_lines(results: RunResults) -> Iterator[dict[str, Any]]:
    """Each answer with S, and again with J or the judges' score; without the keys that all lines of a run share.

    The averages and Overall have no lines: their answers are those of the configs.
    """
    for answer in results.answers:
        components = {name: answer.scores[name] for name in COMPONENTS}
        yield _line(results, answer, S, answer.scores["composite"], components)
        row = answer.judged
        if row is None:
            continue
        metric, score = (J, row["j"]) if "j" in row else (JUDGE_SCORE, row["judge_score"])
        if not pd.isna(score):
            judges = {one.judge_model: one.score for one in answer.judgements}
            judged = {"judge_score": row["judge_score"], "human_score": answer.human_score, "judges": judges}
            yield _line(results, answer, metric, score, judged)


def _line(
    results: RunResults, answer: ScoredAnswer, metric: Metric, score: float, figures: dict[str, Any]
) -> dict[str, Any]:
    record, prediction = answer.record, answer.prediction
    system, user = (clean(message["content"]) for message in answer.prompt.messages)
    references = [clean(reference) for reference in answer.references]
    text = clean(prediction["prediction"])
    attribution = {"turn_idx": 0, "source": "output.raw", "extracted_value": text}
    return name_of(results, record["task"], metric) | {
        "sample_id": record["id"],
        "sample_hash": sha256((user + "".join(references)).encode()).hexdigest(),
        "interaction_type": "single_turn",
        "input": {
            "raw": user,
            "formatted": json.dumps([_message("system", system), _message("user", user)], ensure_ascii=False),
            "reference": references,
        },
        "output": {"raw": [text]} | _reasoning(prediction),
        "answer_attribution": [attribution | {"extraction_method": "entire answer", "is_terminal": True}],
        "evaluation": {"score": float(score), "is_correct": bool(score > metric.highest - _ROUNDING)},
        **_token_usage(prediction),
        "metadata": _metadata(answer, figures),
    }


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _reasoning(prediction: Any) -> dict[str, list[str]]:
    return {"reasoning_trace": [clean(prediction["reasoning"])]} if prediction.get("reasoning") else {}


def _token_usage(prediction: Any) -> dict[str, Any]:
    """Empty if the run does not tell the lengths."""
    given, new = prediction.get("prompt_tokens"), prediction.get("new_tokens")
    if given is None or new is None:
        return {}
    return {"token_usage": {"input_tokens": given, "output_tokens": new, "total_tokens": given + new}}


def _metadata(answer: ScoredAnswer, figures: dict[str, Any]) -> dict[str, str]:
    record, present = answer.record, {key: value for key, value in figures.items() if not _is_missing(value)}
    kind = {key: record.get(key) for key in ("task", "language", "relationship", "need", "difficulty", "emotion")}
    details = {"finish_reason": answer.prediction.get("finish_reason"), "max_tokens": answer.prompt.max_new_tokens}
    return as_texts(kind | details | present | {"is_correct": IS_CORRECT})


def _is_missing(value: Any) -> bool:
    return not isinstance(value, dict) and pd.isna(value)
