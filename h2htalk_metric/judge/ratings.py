"""The scores that one source, judges or people, gives to each answer of a probe run, and the agreement of two sources.

A judge scores an item once per position, and each judge of a panel does so; all of these are listed side by side.
People's scores: :func:`h2htalk_metric.review.scores.human_ratings`.
"""

__all__ = ["JUDGE", "PEOPLE", "CriterionScores", "Ratings", "judge_ratings", "ratings_agreement"]

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from h2htalk_metric.judge.judge_items import JudgeItem, judge_items
from h2htalk_metric.judge.judgement import unscored_reason, valid_judgements
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.judge.prompt import prompt_hash
from h2htalk_metric.runs.run import Run
from h2htalk_metric.stats.agreement import krippendorff_alpha

JUDGE, PEOPLE = "judge", "people"

CriterionScores = Mapping[str, float]
"""Criterion to level; a mean of several explanations may lie between two levels."""


@dataclass(frozen=True)
class Ratings:
    """What one source says about the answers of a run.

    Attributes:
        source: ``judge`` or ``people``.
        raters: names of the judges or people.
        scores: by record id one or more; an item without scores is missing.
        unscored: reasons why items have no scores, with the number of items.
        single: number of items that only one person scored.
        settings: what else a judge's scores depend on.

    """

    source: str
    raters: tuple[str, ...]
    scores: dict[str, list[CriterionScores]]
    unscored: dict[str, int]
    single: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)

    def counts(self) -> dict[str, Any]:
        """The raters, the numbers of items scored, unscored and scored by one person only, and the reasons."""
        return {
            "by": list(self.raters),
            "scored": len(self.scores),
            "unscored": sum(self.unscored.values()),
            "single": self.single,
            "reasons": self.unscored,
        }

    def values(self, ids: Sequence[str], measure: Callable[[CriterionScores], float]) -> np.ndarray:
        """A measure of every item: the mean over its scores, NaN if it has none; float64 of shape (n,)."""
        scores = [self.scores.get(record_id) for record_id in ids]
        return np.array([fmean(map(measure, of_item)) if of_item else np.nan for of_item in scores])


def judge_ratings(run: Run | str | Path, items: Sequence[JudgeItem] | None = None) -> Ratings | None:
    """The judges' scores of a probe run, or of other items in a folder; None if nobody judged it.

    Args:
        run: the run, or its folder.
        items: what was judged; None: all answers of the run.

    """
    run = Run.of(run)
    panel = Panel.read(run.path)
    if panel is None:
        return None
    items = judge_items(run) if items is None else items
    judgements = valid_judgements(run.path, items, panel)
    scores: dict[str, list[CriterionScores]] = {}
    reasons: Counter[str] = Counter()
    for record_id, of_item in judgements.items():
        if reason := unscored_reason(of_item):
            reasons[reason] += 1
        else:
            scores[record_id] = [position for one in of_item for position in one.position_scores.values()]
    settings = {"num_explanations": panel.num_explanations, "seed": panel.seed, "prompt": prompt_hash(run.languages[0])}
    settings |= {"server": panel.server} if panel.server else {}
    if panel.default_temperature:
        settings["default_temperature"] = ",".join(panel.default_temperature)
    return Ratings(JUDGE, panel.judges, scores, dict(reasons.most_common()), settings=settings)


def ratings_agreement(
    first: Ratings, second: Ratings, ids: Sequence[str], measure: Callable[[CriterionScores], float]
) -> float | None:
    """Krippendorff's alpha (interval) of a measure between two sources; None if it is undefined."""
    return krippendorff_alpha(np.array([first.values(ids, measure), second.values(ids, measure)]))
