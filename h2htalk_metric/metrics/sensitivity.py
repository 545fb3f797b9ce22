"""How S and its components react when good answers are made worse in known ways.

The good answers are the second references of the dataset: an independent writer answered the prompts of these records
without seeing the first reference. See :mod:`h2htalk_metric.metrics.distortions` for the ways.
"""

__all__ = ["ALL", "FactCheck", "Reaction", "measure_fact_check", "sensitivity"]

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.metrics.composite import score
from h2htalk_metric.metrics.distortions import DISTORTIONS, another_reference, falsified
from h2htalk_metric.metrics.facts import KINDS, contradictions
from h2htalk_metric.metrics.similarity import Embedder
from h2htalk_metric.stats.intervals import Interval, mean_detectable, mean_interval

ALL = "all"
"""In place of a config: all records."""


class Reaction(NamedTuple):
    """S of answers that were made worse in one way, against the same answers unchanged.

    Attributes:
        distortion: the way.
        group: a config, or :data:`ALL`.
        n: number of answers to which it applies.
        original: mean S times 100 of these answers unchanged.
        distorted: mean S times 100 of the changed ones.
        difference: distorted minus original, with its 95% interval, clustered by relationship.
        detectable: smallest true difference that a test of these pairs finds with 80% power at 5%.
        not_lower: share of answers whose changed version scores at least as high, with its 95% interval.
        components: mean change of each component times 100, in the order of ``COMPONENTS``.

    """

    distortion: str
    group: str
    n: int
    original: float
    distorted: float
    difference: Interval
    detectable: float
    not_lower: Interval
    components: tuple[float, ...]


class FactCheck(NamedTuple):
    """How well the fact check tells falsified answers from unchanged ones.

    Attributes:
        kinds: kinds of facts that count, for instance ``name or time``.
        falsified: number of falsified answers.
        unchanged: number of unchanged answers.
        precision: share of falsified answers among those that it flags, weighted to as many unchanged as falsified
            answers, 0..1; NaN if it flags none.
        recall: share of the falsified answers that it flags, 0..1.

    """

    kinds: str
    falsified: int
    unchanged: int
    precision: float
    recall: float


def sensitivity(
    records: Sequence[Mapping[str, Any]], embedder: str | Embedder, pool: Sequence[Mapping[str, Any]]
) -> list[Reaction]:
    """Measure the reaction of S to every distortion, per config and over all records.

    Args:
        records: records with `alternatives`, of which the first is the good answer.
        embedder: for SS.
        pool: records whose references may serve as another record's reference.

    Raises:
        H2HTalkError: no record has an alternative.

    """
    records = _with_alternatives(records)
    answers = [record["alternatives"][0] for record in records]
    original = _components(answers, records, embedder)
    distorted: dict[str, list[str | None]] = {
        name: [distort(answer, record) for answer, record in zip(answers, records, strict=True)]
        for name, distort in DISTORTIONS.items()
    }
    distorted["another record's reference"] = [another_reference(record, pool) for record in records]
    reactions = []
    for name, texts in distorted.items():
        places = [place for place, text in enumerate(texts) if text is not None]
        chosen = [records[place] for place in places]
        changed = _components([texts[place] or "" for place in places], chosen, embedder)
        reactions += _reactions(name, original[places], changed, chosen)
    return reactions


def measure_fact_check(records: Sequence[Mapping[str, Any]]) -> list[FactCheck]:
    """Precision and recall of :func:`h2htalk_metric.metrics.facts.contradictions`, per kind and together.

    Args:
        records: records with `alternatives`, of which the first is the unchanged answer.

    Raises:
        H2HTalkError: no record has an alternative.

    """
    unchanged, falsified_ones = [], []
    for record in _with_alternatives(records):
        answer = record["alternatives"][0]
        unchanged.append(set(contradictions(answer, record)))
        false_answer = falsified(answer, record)
        if false_answer is not None:
            falsified_ones.append(set(contradictions(false_answer, record)))
    groups = [(kind,) for kind in KINDS] + [("name", "time"), KINDS]
    return [_fact_check(group, falsified_ones, unchanged) for group in groups]


def _fact_check(kinds: Sequence[str], falsified_ones: Sequence[set[str]], unchanged: Sequence[set[str]]) -> FactCheck:
    hits, false_alarms = (
        float(np.mean([not flagged.isdisjoint(kinds) for flagged in answers])) if answers else 0.0
        for answers in (falsified_ones, unchanged)
    )
    precision = hits / (hits + false_alarms) if hits + false_alarms else float("nan")
    return FactCheck(" or ".join(kinds), len(falsified_ones), len(unchanged), precision, hits)


def _with_alternatives(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    chosen = [record for record in records if record["alternatives"]]
    if not chosen:
        raise H2HTalkError("no record has a second reference; use version 2.0.0 of the dataset or a later one")
    return chosen


def _components(answers: Sequence[str], records: Sequence[Mapping[str, Any]], embedder: str | Embedder) -> np.ndarray:
    """Components times 100, shape (records, 7)."""
    references = [record["reference"] for record in records]
    languages = [record["language"] for record in records]
    return 100 * score(answers, references, language=languages, embedder=embedder).components


def _reactions(
    name: str, original: np.ndarray, changed: np.ndarray, records: Sequence[Mapping[str, Any]]
) -> list[Reaction]:
    tasks = np.array([record["task"] for record in records])
    clusters = np.array([record["relationship"] for record in records])
    reactions = []
    for group in [*(task for task in TASKS if task in tasks), ALL]:
        chosen = (tasks == group) | (group == ALL)
        before, after = original[chosen], changed[chosen]
        labels, differences = clusters[chosen].tolist(), (after - before).mean(axis=1)
        difference = mean_interval(differences, labels)
        not_lower = mean_interval((after.mean(axis=1) >= before.mean(axis=1)).astype(float), labels, rate=True)
        assert difference is not None and not_lower is not None  # each group has records
        reactions.append(
            Reaction(
                distortion=name,
                group=str(group),
                n=int(chosen.sum()),
                original=float(before.mean()),
                distorted=float(after.mean()),
                difference=difference,
                detectable=mean_detectable(differences, labels, paired=True),
                not_lower=not_lower,
                components=tuple(map(float, (after - before).mean(axis=0))),
            )
        )
    return reactions
