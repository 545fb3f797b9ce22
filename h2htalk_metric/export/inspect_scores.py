"""The scores of an answer in Inspect's terms: the composite, each judge, J, people together and each rater."""

__all__ = ["COMPOSITE", "SCORER", "answer_scores"]

import math
from collections.abc import Mapping
from typing import Any

from h2htalk_metric.export.results import ScoredAnswer
from h2htalk_metric.judge.judgement import Judgement
from h2htalk_metric.metrics.composite import COMPONENTS
from h2htalk_metric.metrics.tokenizers import clean

SCORER, COMPOSITE = "h2htalk", "composite"
"""The score with the composite, and the composite in it; equal names would confuse the viewer."""


def answer_scores(answer: ScoredAnswer, rater_numbers: Mapping[str, int]) -> dict[str, Any]:
    """The scores by name.

    Args:
        answer: with its scores.
        rater_numbers: what stands for the names of raters.

    Returns:
        ``h2htalk`` (its value has the composite and the seven components, 0..1); and, where there is one, ``J``,
        ``people`` and a ``judge MODEL`` per judge (0..5), and a ``rater N`` per rater (levels of the rubric).

    """
    from inspect_ai.scorer import Score

    values = {name: float(answer.scores[name]) for name in (COMPOSITE, *COMPONENTS)}
    error = answer.scores["format_error"]
    explanation = f"format error: {clean(error)}" if isinstance(error, str) else None
    scores = {SCORER: Score(value=values, answer=clean(answer.prediction["prediction"]), explanation=explanation)}
    if answer.judged is not None and not math.isnan(answer.judged.get("j", math.nan)):
        scores["J"] = Score(value=float(answer.judged["j"]), explanation=_explain_j(answer.judged))
    scores |= {f"judge {clean(one.judge_model)}": _judge_score(one) for one in answer.judgements}
    if answer.human_score is not None:
        scores["people"] = Score(value={"score": answer.human_score}, explanation="The score of all raters, 0 to 5.")
    for review in answer.reviews:
        name = f"rater {rater_numbers[review.rater]}"
        scores[name] = Score(value=dict(review.marks), explanation=clean(review.comment) or None)
    return scores


def _explain_j(judged: Mapping[str, Any]) -> str:
    by_people = not math.isnan(judged["human_score"])
    source, score = ("people", judged["human_score"]) if by_people else ("the judges", judged["judge_score"])
    return f"J (Eq. 3) of S, {judged['s5']:.3f} of 5, and the score of {source}, {score:.3f} of 5."


def _judge_score(judgement: Judgement) -> Any:
    from inspect_ai.scorer import Score

    if judgement.score is None:
        return Score.unscored(reason="grader_failed", explanation=clean(judgement.unscored or ""))
    lines = [
        f"{position.replace('_', ' ')}: {clean(explanation)}"
        for position, explanations in judgement.explanations.items()
        for explanation in explanations
    ]
    return Score(value={"score": judgement.score} | judgement.scores, explanation="\n\n".join(lines) or None)
