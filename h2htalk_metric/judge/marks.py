"""What was said of each answer by one source, a judge or people, and the agreement of two.

A judge gives an item a verdict in each position (answer first, reference first), and each judge of a panel does so;
all of them stand side by side here. People's: :func:`h2htalk_metric.review.scores.people_marks`.
"""

__all__ = ["JUDGE", "PEOPLE", "Marks", "Verdict", "agreement_of", "judge_marks"]

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from h2htalk_metric.judge.items import probe_items
from h2htalk_metric.judge.marking import Item
from h2htalk_metric.judge.prompt import prompt_hash
from h2htalk_metric.judge.run_judgements import Panel, standing, verdicts_of
from h2htalk_metric.stats.agreement import krippendorff_alpha

JUDGE, PEOPLE = "judge", "people"

Verdict = Mapping[str, float]
"""Criterion to mark; whole, or a mean of several draws."""


@dataclass(frozen=True)
class Marks:
    """What one source said of the answers of a run.

    Attributes:
        source: ``judge`` or ``people``.
        names: of the judges, or of the people.
        verdicts: by record id, one or more; an item without any is missing.
        unscored: why items have none, and how many each.
        single: how many items only one person has marked.
        settings: what else a judge's verdicts depend on.

    """

    source: str
    names: tuple[str, ...]
    verdicts: dict[str, list[Verdict]]
    unscored: dict[str, int]
    single: int = 0
    settings: Mapping[str, Any] | None = None

    def counts(self) -> dict[str, Any]:
        """By whom, how many items scored and unscored, for what reasons, and how many by one person only."""
        return {
            "by": list(self.names),
            "scored": len(self.verdicts),
            "unscored": sum(self.unscored.values()),
            "single": self.single,
            "reasons": self.unscored,
        }

    def values(self, ids: Sequence[str], measure: Callable[[Verdict], float]) -> np.ndarray:
        """A measure of every item: the mean over its verdicts, NaN where it has none; float64 of shape (n,)."""
        found = [self.verdicts.get(identity) for identity in ids]
        return np.array([fmean(map(measure, said)) if said else np.nan for said in found])


def judge_marks(folder: str | Path, items: Sequence[Item] | None = None) -> Marks | None:
    """A judge's marks of a run over a probe set, or of other items there; None where nobody asked one."""
    path = Path(folder)
    panel = Panel.read(path)
    if panel is None:
        return None
    items = probe_items(path) if items is None else items
    lines = standing(path, items, panel)
    verdicts: dict[str, list[Verdict]] = {}
    reasons: Counter[str] = Counter()
    for item in items:
        said, why = verdicts_of(item.id, lines, panel)
        if why:
            reasons[why] += 1
        else:
            verdicts[item.id] = [marks for line in said for marks in line["positions"].values()]
    settings: dict[str, Any] = {"evidence": panel.evidence, "seed": panel.seed, "prompt": prompt_hash()}
    settings |= {"server": panel.server} if panel.server else {}
    return Marks(JUDGE, panel.judges, verdicts, dict(reasons.most_common()), settings=settings)


def agreement_of(judge: Marks, people: Marks, ids: Sequence[str], measure: Callable[[Verdict], float]) -> float | None:
    """Krippendorff's alpha (interval) of a measure between judge and people; None where it is undefined."""
    return krippendorff_alpha(np.array([judge.values(ids, measure), people.values(ids, measure)]))
