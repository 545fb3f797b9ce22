"""Scores by what makes a record hard: need, difficulty, emotion, length of the conversation.

The paper's finding is that models struggle "when user needs are implicit or evolve mid-conversation". References of
implicit needs are longer than others, and S grows with the reference's length, so the mean of a slice alone misleads:
:func:`need_effects` compares within configs, and adjusts for the length.
"""

__all__ = ["FACTORS", "NeedEffects", "Slice", "levels_of", "need_effects", "slices"]

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.runs.scoring import RunScores
from h2htalk_metric.stats.intervals import Interval, mean_detectable, mean_interval
from h2htalk_metric.stats.regression import Effect, clustered_regression

UNSAID = ("implicit", "evolving")
"""Needs that the user does not say aloud."""


def _turns(items: pd.DataFrame) -> pd.Series:
    names = pd.cut(items["turns"], [0, 1, 2, 4, np.inf], labels=["1", "2", "3 to 4", "5 or more"])
    return names.astype(object)


FACTORS: dict[str, Callable[[pd.DataFrame], pd.Series]] = {
    "need": lambda items: items["need"],
    "difficulty": lambda items: items["difficulty"].map(lambda level: None if pd.isna(level) else str(int(level))),
    "turns": _turns,
    "emotion": lambda items: items["emotion"],
}
"""Factor name to a function from items to the level of each; missing levels are in no slice."""

_ORDER = {"need": ["explicit", "implicit", "evolving", "contextual"], "turns": ["1", "2", "3 to 4", "5 or more"]}


class Slice(NamedTuple):
    """The records of one level of a factor.

    Attributes:
        level: for instance ``implicit``.
        n: number of records.
        score: mean with its 95% interval, clustered by relationship.
        detectable: smallest difference to an independent run that a test finds (80% power, 5% level); NaN if undefined.

    """

    level: str
    n: int
    score: Interval
    detectable: float


class NeedEffects(NamedTuple):
    """Records with unsaid needs (implicit, evolving) minus records with explicit needs, on the scale of the values.

    Attributes:
        n_unsaid: number of records with an unsaid need.
        n_explicit: number of records with an explicit need.
        raw: difference of the means.
        within_config: difference within configs (an intercept per config).
        adjusted: difference within configs at the same length of the reference (logarithm of its number of words).

    """

    n_unsaid: int
    n_explicit: int
    raw: Effect
    within_config: Effect
    adjusted: Effect


def slices(
    scores: RunScores, factor: str, values: pd.Series | None = None, bounds: tuple[float, float] = (0, 100)
) -> list[Slice]:
    """Mean score of every level of a factor.

    Args:
        scores: of a run.
        factor: one of :data:`FACTORS`.
        values: score per item of `scores`, NaN if it has none; S times 100 if not given.
        bounds: smallest and largest possible score.

    Returns:
        One slice per level that has scored records; empty if no record has a level, for instance in old runs.

    Raises:
        H2HTalkError: the factor is unknown.

    """
    items = scores.items
    measured = (100 * items["composite"]) if values is None else values
    result = []
    for level, of_level in levels_of(scores, factor).items():
        chosen = of_level & measured.notna()
        clusters, scored = items.loc[chosen, "relationship"].tolist(), measured[chosen].to_numpy()
        interval = mean_interval(scored, clusters, bounds=bounds)
        if interval is not None:
            result.append(Slice(level, int(chosen.sum()), interval, mean_detectable(scored, clusters)))
    return result


def levels_of(scores: RunScores, factor: str) -> dict[str, pd.Series]:
    """Level to which items have it (bool per item), in the order in which tables show them.

    Raises:
        H2HTalkError: the factor is unknown.

    """
    if factor not in FACTORS:
        raise H2HTalkError(f"unknown factor {factor!r}; the factors are: {', '.join(FACTORS)}")
    if factor not in scores.items:
        return {}
    levels = FACTORS[factor](scores.items)
    return {str(level): levels == level for level in _ordered(factor, levels.dropna().unique().tolist())}


def need_effects(scores: RunScores, values: pd.Series | None = None) -> NeedEffects | None:
    """What it costs that a need is not said aloud.

    Args:
        scores: of a run.
        values: per item of `scores`; S times 100 if not given. Differences of two runs give the difference of their
            effects.

    Returns:
        None if the run lacks one of the two kinds of records, relationships, or the lengths of references.

    """
    items = scores.items
    if "need" not in items or "reference_words" not in items:
        return None
    rows = items.assign(value=100 * items["composite"] if values is None else values)
    rows = rows[rows["need"].isin([*UNSAID, "explicit"])]
    unsaid = rows["need"].isin(UNSAID).to_numpy(dtype=float)
    if rows["relationship"].nunique() < 2 or len(set(unsaid)) < 2:
        return None
    clusters, configs = rows["relationship"].tolist(), rows["task"].tolist()
    length = np.log(np.maximum(rows["reference_words"].to_numpy(dtype=float), 1))

    def effect(variables: dict[str, Any], groups: list[str] | None) -> Effect:
        return clustered_regression(rows["value"].to_numpy(), variables, clusters, groups)["unsaid"]

    try:
        return NeedEffects(
            int(unsaid.sum()),
            int(len(unsaid) - unsaid.sum()),
            effect({"unsaid": unsaid}, None),
            effect({"unsaid": unsaid}, configs),
            effect({"unsaid": unsaid, "length": length}, configs),
        )
    except H2HTalkError:  # too few records to separate the effects
        return None


def _ordered(factor: str, levels: list[Any]) -> list[Any]:
    fixed = [level for level in _ORDER.get(factor, []) if level in levels]
    return fixed + sorted(level for level in levels if level not in fixed)
