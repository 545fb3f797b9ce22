"""How far people agree with each other and with the judge."""

__all__ = ["Agreement", "JudgeAgreement", "PeopleAgreement", "agreement"]

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np

from h2htalk_metric.judge.judge_items import judge_items
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.judge.panel_scores import panel_scores
from h2htalk_metric.judge.ratings import judge_ratings
from h2htalk_metric.review.protocol import mean_mark, on_scale
from h2htalk_metric.review.review_item import GROUPS, ReviewItem
from h2htalk_metric.review.reviews import Review, Reviews
from h2htalk_metric.review.scores import human_scores, stale_items
from h2htalk_metric.runs.run import Run
from h2htalk_metric.stats.agreement import krippendorff_alpha
from h2htalk_metric.stats.intervals import Interval, mean_detectable, mean_interval


class PeopleAgreement(NamedTuple):
    """The first two raters of each item against each other; a third marks only items on which these disagree.

    Attributes:
        items: number of items with two raters.
        alpha: Krippendorff's (ordinal) of the raters' means per item, None if undefined.
        criteria: the same of the marks, by criterion.

    """

    items: int
    alpha: float | None
    criteria: dict[str, float | None]


class JudgeAgreement(NamedTuple):
    """The judge's scores against people's, item by item.

    Attributes:
        items: number of items that both have scored.
        alpha: Krippendorff's (ordinal), None if undefined.
        spearman: rank correlation, None if undefined.
        difference: mean of judge minus people, on 0..5, with its 95% interval clustered by relationship, or by
            scenario in a probe run; None without items.
        detectable: smallest true difference that a test finds (80% power, 5% level); NaN if undefined.

    """

    items: int
    alpha: float | None
    spearman: float | None
    difference: Interval | None
    detectable: float


class Agreement(NamedTuple):
    """Agreement within one group of items.

    Attributes:
        sampled: number of items in the group.
        resolved: number of items with a human score.
        people: among people.
        judge: between judge and people; None if nobody judged the run.
        stale: reasons why saved marks count nowhere, with the number of items.

    """

    sampled: int
    resolved: int
    people: PeopleAgreement
    judge: JudgeAgreement | None
    stale: dict[str, int]


def agreement(run: Run | str | Path) -> dict[str, Agreement]:
    """Agreement per group (``flagged``, ``control``, ``sample``, if it has items) and of ``all``; without stale marks.

    Flagged items were chosen for their low scores, so ``all`` is not an estimate for the whole run.

    Args:
        run: the run, or its folder.

    Raises:
        H2HTalkError: the run has no reviews.

    """
    run = Run.of(run)
    reviews, stale, people = Reviews(run.path), stale_items(run), human_scores(run)
    judge, clusters = _judge_scores(run), _clusters(run)
    latest = {item: by_rater for item, by_rater in reviews.latest().items() if item not in stale}
    items_of = {str(group): [item for item in reviews.items.values() if item.group == group] for group in GROUPS}
    groups = {group: items for group, items in items_of.items() if items} | {"all": list(reviews.items.values())}
    return {
        group: Agreement(
            len(items),
            sum(item.id in people for item in items),
            _among_people(items, latest),
            None if judge is None else _judge_against_people([item.id for item in items], judge, people, clusters),
            dict(Counter(stale[item.id] for item in items if item.id in stale).most_common()),
        )
        for group, items in groups.items()
    }


def _among_people(items: Sequence[ReviewItem], latest: Mapping[str, Mapping[str, Review]]) -> PeopleAgreement:
    pairs = [(item, [one.marks for one in latest.get(item.id, {}).values()][:2]) for item in items]
    pairs = [(item, marks) for item, marks in pairs if len(marks) == 2]
    means = [[mean_mark(item.rubric, one) for one in marks] for item, marks in pairs]
    by_criterion: dict[str, list[list[float]]] = {}
    for item, marks in pairs:
        scaled = [on_scale(item.rubric, one) for one in marks]
        for name in scaled[0]:
            by_criterion.setdefault(name, []).append([one[name] for one in scaled])
    criteria = {name: _ordinal_alpha(marks) for name, marks in by_criterion.items()}
    return PeopleAgreement(len(pairs), _ordinal_alpha(means), criteria)


def _judge_against_people(
    ids: Sequence[str], judge: Mapping[str, float], people: Mapping[str, float], clusters: Mapping[str, str]
) -> JudgeAgreement:
    from scipy.stats import spearmanr

    scored = [record_id for record_id in ids if record_id in judge and record_id in people]
    pairs = [(judge[record_id], people[record_id]) for record_id in scored]
    if not pairs:
        return JudgeAgreement(0, None, None, None, math.nan)
    differences, labels = [one - other for one, other in pairs], [clusters[record_id] for record_id in scored]
    difference, detectable = mean_interval(differences, labels), mean_detectable(differences, labels, paired=True)
    is_varied = all(len(set(side)) > 1 for side in zip(*pairs, strict=True))
    rank = float(spearmanr(*zip(*pairs, strict=True)).statistic) if is_varied else None
    return JudgeAgreement(len(pairs), _ordinal_alpha(pairs), rank, difference, detectable)


def _ordinal_alpha(pairs: Sequence[Sequence[float]]) -> float | None:
    """Of the values of two raters, one pair per item."""
    # Means of the same marks may differ in the last bits; the ordinal distance would take them for two ranks.
    return krippendorff_alpha(np.round(np.array(pairs, dtype=float).T, 6), "ordinal") if pairs else None


def _judge_scores(run: Run) -> dict[str, float] | None:
    """The judges' scores by record id, 0..5; None if nobody judged the run."""
    if Panel.read(run.path) is None:
        return None
    if not run.is_probe_run:
        table = panel_scores(run).dropna(subset="judge_score")
        return dict(zip(table["id"], table["judge_score"], strict=True))
    rubrics = {item.id: item.rubric for item in judge_items(run)}
    ratings = judge_ratings(run)
    assert ratings is not None  # there is a panel
    return {
        record_id: fmean(mean_mark(rubrics[record_id], scores) for scores in of_item)
        for record_id, of_item in ratings.scores.items()
    }


def _clusters(run: Run) -> dict[str, str]:
    """Cluster label by record id."""
    if not run.complete:
        return {}
    label = "scenario" if run.is_probe_run else "relationship"
    return {record["id"]: record[label] for record in run.records}
