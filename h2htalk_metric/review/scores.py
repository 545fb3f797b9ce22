"""What people's marks of an item come to: a score for J, or ratings of a probe run.

Both follow the protocol (:mod:`h2htalk_metric.review.protocol`): an item is resolved by two raters who agree, or by
three. In the ratings of a probe run, an item that only one person marked has that person's marks, and is counted.
Stale marks are those of another answer than the run has now, or by another rubric than a judge would use now. They
count nowhere, and are reported with the reason.
"""

__all__ = ["human_ratings", "human_scores", "stale_items", "stale_reasons"]

from collections import Counter
from pathlib import Path
from statistics import median

from h2htalk_metric.judge.judge_items import judge_items
from h2htalk_metric.judge.ratings import PEOPLE, CriterionScores, Ratings
from h2htalk_metric.review.protocol import item_score, resolved
from h2htalk_metric.review.reviews import Reviews
from h2htalk_metric.runs.run import Run, cached_per_run


@cached_per_run
def human_scores(run: Run) -> dict[str, float]:
    """People's scores of the resolved items, 0..5 by record id; empty if there are no reviews.

    With two raters the score is the mean of their means. If they disagree, the item has no score until a third rater
    has marked it; then it is the mean over criteria of the median of the three marks. Stale marks do not count, see
    :func:`stale_items`.

    Args:
        run: the run, or its folder.

    """
    if not Reviews.exist(run.path):
        return {}
    reviews, stale = Reviews(run.path), stale_items(run)
    scores = {
        item: item_score(reviews.items[item].rubric, [review.marks for review in by_rater.values()])
        for item, by_rater in reviews.latest().items()
        if item not in stale
    }
    return {item: score for item, score in scores.items() if score is not None}


@cached_per_run
def stale_items(run: Run) -> dict[str, str]:
    """The items with marks that do not count any more, and why.

    Args:
        run: the run, or its folder. Without ``predictions.jsonl`` nothing is stale.

    """
    if not run.complete or not Reviews.exist(run.path):
        return {}
    reviews = Reviews(run.path)
    present = {item.id: item for item in judge_items(run)}
    stale = {}
    for record_id, by_rater in reviews.latest().items():
        marked, now = reviews.items[record_id], present.get(record_id)
        if not by_rater:
            continue
        if now is None or now.blocks["answer"] != marked.answer:
            stale[record_id] = "the answer has changed since"
        elif now.rubric.hash != marked.rubric.hash:
            stale[record_id] = "the rubric has changed since"
    return stale


def stale_reasons(run: Run | str | Path) -> dict[str, int]:
    """Why marks are stale, with the number of items, the most frequent first."""
    return dict(Counter(stale_items(run).values()).most_common())


def human_ratings(run: Run | str | Path) -> Ratings | None:
    """People's ratings of a probe run; None if nobody marked any answer."""
    run = Run.of(run)
    if not Reviews.exist(run.path):
        return None
    reviews, stale = Reviews(run.path), stale_items(run)
    scores: dict[str, list[CriterionScores]] = {}
    reasons: Counter[str] = Counter()
    single = 0
    raters: dict[str, None] = {}
    for item, by_rater in reviews.latest().items():
        marks = [review.marks for review in by_rater.values()]
        if item in stale:
            reasons[stale[item]] += 1
            continue
        raters |= dict.fromkeys(by_rater)
        if not marks:
            reasons["not marked yet"] += 1
        elif len(marks) > 1 and not resolved(reviews.items[item].rubric, marks):
            reasons["two disagree, a third rater is needed"] += 1
        else:
            single += len(marks) == 1
            scores[item] = [{name: float(median(one[name] for one in marks)) for name in marks[0]}]
    if not raters and not stale:
        return None
    return Ratings(PEOPLE, tuple(raters), scores, dict(reasons.most_common()), single)
