"""InstructionFollowing: which criteria of a record an answer meets, and what it costs that a need is not said.

The value of an answer is the share of its record's two to four criteria that it meets, the mean over its verdicts.
Every implicit record has an explicit control with the same need and criteria, so explicit minus implicit is a paired
difference (the paper's Fig. 7 by family and emotion).
"""

__all__ = ["EMOTIONS", "FAMILIES", "GROUPS", "PROBE", "measure_instructions"]

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from h2htalk_metric.judge.ratings import CriterionScores, judge_ratings, ratings_agreement
from h2htalk_metric.probes.figures import figure
from h2htalk_metric.probes.results import check_probe_run
from h2htalk_metric.review.scores import human_ratings
from h2htalk_metric.runs.run import Run
from h2htalk_metric.stats.intervals import as_json
from h2htalk_metric.stats.significance import holm, paired_test

Record = Mapping[str, Any]
"""A record of a probe set."""

PROBE = "InstructionFollowing"
FAMILIES = {
    "explicit": "Explicit",
    "implicit_help": "Implicit-Help",
    "ambiguous_contradictory": "Ambiguous",
    "context_aware": "Context-Aware",
}
"""The families with their names in the paper, the explicit controls first."""

EMOTIONS = ("depression", "anxiety", "anger", "plain")

GROUPS: dict[str, Callable[[Record], str | None]] = {
    "family": lambda record: record["kind"],
    "emotion": lambda record: f"{record['kind']}/{record['emotion']}",
    "implicitness": lambda record: f"{record['kind']}/{record['implicitness']}" if record["implicitness"] else None,
}
"""Groupings of records: by family, by family and emotion, by family and implicitness (1 to 3, 3 is most implicit)."""


def measure_instructions(run: Run | str | Path, *, resamples: int = 10_000) -> dict[str, Any]:
    """Measure a run over InstructionFollowing.

    Args:
        run: a complete run.
        resamples: random sign assignments of the tests.

    Returns:
        Content of ``probes/instructions.json``. `figures`: per source (``judge``, ``people``), grouping and group
        its :func:`~h2htalk_metric.probes.figures.figure`. `differences`: per source explicit minus implicit over
        ``all`` pairs, and per emotion and implicitness, with p and p_holm (over the emotions, and over the levels of
        implicitness). `agreement`: Krippendorff's alpha between judge and people, or None. Also n, empty, cut, counts
        and the signature.

    Raises:
        H2HTalkError: the run is incomplete, or it is of another set.

    """
    run = Run.of(run)
    check_probe_run(run, PROBE)
    records = run.records
    ids = [record["id"] for record in records]
    ratings = [one for one in (judge_ratings(run), human_ratings(run)) if one]
    values = {one.source: one.values(ids, _share_met) for one in ratings}
    signature: dict[str, Any] = {"probe": run.manifest["dataset"]["fingerprint"][:12], "resamples": resamples}
    for one in ratings:
        signature |= {one.source: ",".join(one.raters), **one.settings}
    return {
        "probe": PROBE,
        "model": run.manifest["model"]["name"],
        "n": len(records),
        "empty": sum(not line["prediction"].strip() for line in run.predictions),
        "cut": sum(line["finish_reason"] == "length" for line in run.predictions),
        "counts": {one.source: one.counts() for one in ratings},
        "figures": {source: _figures(records, of_source) for source, of_source in values.items()},
        "differences": {source: _differences(records, of_source, resamples) for source, of_source in values.items()},
        "agreement": ratings_agreement(ratings[0], ratings[1], ids, _share_met) if len(ratings) == 2 else None,
        "signature": signature,
    }


def _share_met(scores: CriterionScores) -> float:
    return fmean(scores.values())


def _figures(records: Sequence[Record], values: np.ndarray) -> dict[str, Any]:
    figures: dict[str, Any] = {grouping: {} for grouping in GROUPS}
    for grouping, group_of in GROUPS.items():
        groups = [group_of(record) for record in records]
        for group in dict.fromkeys(name for name in groups if name):
            places = [place for place, name in enumerate(groups) if name == group]
            if one := figure(values[places], [records[place]["scenario"] for place in places], rate=True):
                figures[grouping][group] = one
    return figures


def _differences(records: Sequence[Record], values: np.ndarray, resamples: int) -> dict[str, Any]:
    """Explicit minus implicit: over all pairs, per emotion, per implicitness."""
    place_of = {record["id"]: place for place, record in enumerate(records)}
    pairs = [
        (place_of[record["explicit_control"]], place)
        for place, record in enumerate(records)
        if record["explicit_control"]
    ]

    def test(chosen: Sequence[tuple[int, int]]) -> dict[str, Any] | None:
        explicit, implicit = ([pair[side] for pair in chosen] for side in (0, 1))
        scenarios = [records[place]["scenario"] for place in implicit]
        result = paired_test(values[explicit], values[implicit], scenarios, resamples=resamples)
        return as_json(result) if result else None

    of_all = test(pairs)
    if of_all:
        del of_all["p_holm"]  # one test is not corrected
    differences: dict[str, Any] = {"all": of_all}
    for grouping in ("emotion", "implicitness"):
        levels = sorted({records[implicit][grouping] for _, implicit in pairs})
        tests = {level: test([pair for pair in pairs if records[pair[1]][grouping] == level]) for level in levels}
        defined = {str(level): result for level, result in tests.items() if result}
        corrected = holm([result["p"] for result in defined.values()])
        differences[grouping] = {
            level: result | {"p_holm": p} for (level, result), p in zip(defined.items(), corrected, strict=True)
        }
    return differences
