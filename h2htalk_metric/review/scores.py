"""What people's marks of an item come to: a score for J, or a verdict beside a judge's.

Both follow the protocol (:mod:`h2htalk_metric.review.protocol`): two raters who agree settle an item, or three. In a
verdict an item that only one person has marked counts with that person's marks, and is counted as such.
"""

__all__ = ["human_scores", "people_marks"]

from collections import Counter
from pathlib import Path
from statistics import median

from h2htalk_datasets.generation.run_folder import RunFolder
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.judge.marks import PEOPLE, Marks, Verdict
from h2htalk_metric.judge.rubric import load_rubric
from h2htalk_metric.review.database import Reviews
from h2htalk_metric.review.protocol import item_score, settled
from h2htalk_metric.runs.scoring import predictions_of

_WITH_RUBRIC = {name for name, task in TASKS.items() if task.judged} | {"SafetyHighRisk"}


def human_scores(run_folder: str | Path) -> dict[str, float]:
    """People's scores, 0..5, of the items that are settled and still the run's; empty where there are no reviews.

    With two raters an item's score is the mean of their means. Where those disagree the item has no score until a
    third has marked it; then the median of the three marks counts on every criterion, and the score is the mean over
    criteria. The rule of disagreement: see :mod:`h2htalk_metric.review.protocol`. Marks of an answer that the run has
    given anew since, or by a rubric that has changed since, do not count.
    """
    if not Reviews.exist(run_folder):
        return {}
    reviews = Reviews(run_folder)
    lapsed = _lapsed(run_folder, reviews)
    scores = {
        identity: item_score(reviews.items[identity].rubric, [marking.marks for marking in by_rater.values()])
        for identity, by_rater in reviews.markings().items()
        if identity not in lapsed
    }
    return {identity: score for identity, score in scores.items() if score is not None}


def _lapsed(folder: str | Path, reviews: Reviews) -> dict[str, str]:
    """The items whose marks are of something else than what the run holds and a judge would mark by, and why."""
    run = RunFolder(folder)
    if not run.predictions_file.exists():  # as of conversations, which are no predictions
        return {}
    now = {line["id"]: line["prediction"] for line in predictions_of(run)}
    own = {name: load_rubric(name).hash for name in {item.task for item in reviews.items.values()} & _WITH_RUBRIC}
    lapsed = {}
    for identity, item in reviews.items.items():
        if now.get(identity, item.answer) != item.answer:
            lapsed[identity] = "answered anew since"
        elif own.get(item.task, item.rubric.hash) != item.rubric.hash:
            lapsed[identity] = "marked by another rubric"
    return lapsed


def people_marks(folder: str | Path) -> Marks | None:
    """People's marks of a run over a probe set; None where nobody has marked any."""
    if not Reviews.exist(folder):
        return None
    reviews = Reviews(folder)
    verdicts: dict[str, list[Verdict]] = {}
    reasons: Counter[str] = Counter()
    single = 0
    names: dict[str, None] = {}
    lapsed = _lapsed(folder, reviews)
    for identity, by_rater in reviews.markings().items():
        if identity in lapsed:
            reasons[lapsed[identity]] += 1
            continue
        marks = [marking.marks for marking in by_rater.values()]
        names |= dict.fromkeys(by_rater)
        if not marks:
            reasons["not marked yet"] += 1
        elif len(marks) > 1 and not settled(reviews.items[identity].rubric, marks):
            reasons["two disagree, a third is wanted"] += 1
        else:
            single += len(marks) == 1
            verdicts[identity] = [{name: float(median(one[name] for one in marks)) for name in marks[0]}]
    return Marks(PEOPLE, tuple(names), verdicts, dict(reasons.most_common()), single) if names else None
