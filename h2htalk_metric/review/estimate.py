"""What people's scores of a sample say about all judged answers of a run.

Each resolved item counts with the inverse of its inclusion probability. The mean is the ratio form of Horvitz and
Thompson's estimator (Hajek 1971): the weighted sum of the values over the sum of the weights. Intervals are clustered
by relationship; that of a share is Korn and Graubard's (1998), since the usual one is too narrow if few answers count
much.
"""

__all__ = ["Estimate", "population_mean", "population_share", "review_estimate"]

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.judge.panel_scores import composites_of
from h2htalk_metric.review.reviews import Reviews
from h2htalk_metric.review.scores import human_scores
from h2htalk_metric.runs.run import Run
from h2htalk_metric.stats.intervals import Interval, mean_interval

_TAIL = 0.025  # of a 95% interval


class Estimate(NamedTuple):
    """Estimates for all answers that the items of a review were chosen from.

    Attributes:
        population: number of these answers.
        sampled: number of items in the review.
        resolved: number of items with a human score, which the estimates use.
        human_score: mean human score, 0..5, with its 95% interval.
        below_tau: share of answers whose J with a human score is below tau, 0..1; None if the run is not scored, or a
            share of the answers is flagged in place of those below tau.
        unavailable: why there are no estimates, or None.

    """

    population: int
    sampled: int
    resolved: int
    human_score: Interval | None = None
    below_tau: Interval | None = None
    unavailable: str | None = None


def review_estimate(run: Run | str | Path) -> Estimate:
    """Estimate the mean human score of all judged answers, and the share of them below tau.

    Unresolved items are assumed to be like the resolved ones.

    Args:
        run: a run with a review, or its folder.

    Raises:
        H2HTalkError: the run has no reviews.

    """
    run = Run.of(run)
    reviews, people = Reviews(run.path), human_scores(run)
    probabilities = {item.id: item.probability for item in reviews.items.values() if item.probability}
    population = int(reviews.settings.get("population", 0))
    counts = population, len(reviews.items), sum(item in people for item in reviews.items)
    if len(probabilities) < len(reviews.items):
        reason = "the review was started by an earlier version, which stored no inclusion probabilities"
        return Estimate(*counts, unavailable=reason)
    if sum(1 / probability for probability in probabilities.values()) < population - 0.5:
        return Estimate(*counts, unavailable="answers that are not flagged had no chance to be chosen (--controls 0)")
    if not counts[2]:
        return Estimate(*counts, unavailable="no item is resolved yet")
    rows = pd.DataFrame(
        [(item, people[item], probability) for item, probability in probabilities.items() if item in people],
        columns=["id", "human_score", "probability"],
    )
    rows["cluster"] = rows["id"].map({record["id"]: record["relationship"] for record in run.records})
    below = _below_tau(run, rows)
    weighting = rows["probability"].to_numpy(), list(rows["cluster"])
    score = population_mean(rows["human_score"].to_numpy(), *weighting, bounds=(0, 5))
    share = population_share(below, *weighting) if below is not None else None
    return Estimate(*counts, human_score=score, below_tau=share)


def population_mean(
    values: np.ndarray,
    probabilities: Sequence[float] | np.ndarray,
    clusters: Sequence[str],
    *,
    bounds: tuple[float, float] | None = None,
) -> Interval:
    """Estimate a mean over a population from a sample of it.

    Args:
        values: of the sampled items, shape (items,).
        probabilities: their inclusion probabilities, above 0, same shape.
        clusters: label per item.
        bounds: see :func:`h2htalk_metric.stats.intervals.mean_interval`.

    """
    weights = 1 / np.asarray(probabilities, dtype=float)
    interval = mean_interval(values, clusters, bounds=bounds, weights=weights)
    assert interval is not None  # there are values
    return interval


def population_share(
    values: np.ndarray, probabilities: Sequence[float] | np.ndarray, clusters: Sequence[str]
) -> Interval:
    """Estimate a share of a population from a sample of it.

    The interval is Clopper and Pearson's for the effective sample size: the number of independent items of equal weight
    that would give the same standard error (Korn and Graubard 1998), but at most the one that the weights alone allow.

    Args:
        values: 0 or 1 per sampled item, shape (items,).
        probabilities: see :func:`population_mean`.
        clusters: likewise.

    """
    from scipy.stats import beta

    mean = population_mean(values, probabilities, clusters)
    if not mean.defined:
        return mean
    weights, share = 1 / np.asarray(probabilities, dtype=float), mean.value
    size = float(weights.sum() ** 2 / (weights**2).sum())  # Kish's
    half = mean.high - mean.value
    if half > 0:  # of the interval with Student's t, so the degrees of freedom are accounted for
        size = min(size, share * (1 - share) * _normal_quantile() ** 2 / half**2)
    count = share * size
    low = beta.ppf(_TAIL, count, size - count + 1) if share > 0 else 0.0
    high = beta.ppf(1 - _TAIL, count + 1, size - count) if share < 1 else 1.0
    return Interval(share, float(low), float(high))


def _normal_quantile() -> float:
    from scipy.stats import norm

    return float(norm.ppf(1 - _TAIL))


def _below_tau(run: Run, rows: pd.DataFrame) -> np.ndarray | None:
    """Whether J of each row, with its human score, is below tau; None without S or tau."""
    panel = Panel.read(run.path) or Panel(())
    if panel.tau_share is not None or not (run.path / "scores.parquet").exists():
        return None
    answers = composites_of(run).set_index("id").loc[rows["id"]]
    scored = zip(answers["task"], answers["composite"], rows["human_score"], strict=True)
    j = [panel.j(task, composite, score) for task, composite, score in scored]
    return (np.array(j) < panel.tau).astype(float)
