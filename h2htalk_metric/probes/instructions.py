"""InstructionFollowing: which of a record's criteria an answer meets, and what it costs that a need is left unsaid.

An answer's figure is the share of its record's two to four criteria that it meets, the mean over its verdicts. Every
implicit record has an explicit twin with the same need and criteria, so the gap explicit less implicit is a paired
difference, twin by twin (the paper's Fig. 7 by family and mood).
"""

__all__ = ["FAMILIES", "GROUPS", "MOODS", "PROBE", "following_of"]

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from h2htalk_datasets.generation.run_folder import RunFolder
from h2htalk_metric.judge.marks import Verdict, agreement_of, judge_marks
from h2htalk_metric.probes.answers import Row, answered
from h2htalk_metric.review.scores import people_marks
from h2htalk_metric.stats.intervals import as_json, mean_interval
from h2htalk_metric.stats.significance import holm, paired_test

PROBE = "InstructionFollowing"
FAMILIES = {
    "explicit": "Explicit",
    "implicit_help": "Implicit-Help",
    "ambiguous_contradictory": "Ambiguous",
    "context_aware": "Context-Aware",
}
"""The families by their names in the paper, the explicit controls first."""

MOODS = ("depression", "anxiety", "anger", "plain")

GROUPS: dict[str, Callable[[Row], str | None]] = {
    "family": lambda row: row["kind"],
    "mood": lambda row: f"{row['kind']}/{row['mood']}",
    "faintness": lambda row: f"{row['kind']}/{row['faintness']}" if row["faintness"] else None,
}
"""How records are grouped: by family, by family and mood, by family and faintness (1 plain to 3 faint)."""


def following_of(folder: str | Path, *, resamples: int = 10_000) -> dict[str, Any]:
    """Measure a run over InstructionFollowing.

    Args:
        folder: a complete run.
        resamples: of intervals and tests.

    Returns:
        What ``following.json`` holds: `figures` by source (``judge``, ``people``), grouping and group, n, value, low
        and high; `gaps` by source: explicit less implicit over ``all`` twins, and by mood and faintness, each with p
        and, over the moods and over the degrees of faintness, p_holm; `agreement` of judge and people; counts.

    Raises:
        H2HTalkError: the run is incomplete or of another set.

    """
    manifest = RunFolder(folder).manifest()
    run = answered(folder)
    rows = [row for row, _ in run]
    ids = [row["id"] for row in rows]
    marks = [found for found in (judge_marks(folder), people_marks(folder)) if found]
    values = {one.source: one.values(ids, _share) for one in marks}
    signature: dict[str, Any] = {"probe": manifest["dataset"]["fingerprint"][:12], "resamples": resamples}
    for one in marks:
        signature |= {one.source: ",".join(one.names), **(one.settings or {})}
    return {
        "probe": PROBE,
        "model": manifest["model"]["name"],
        "n": len(rows),
        "empty": sum(not line["prediction"].strip() for _, line in run),
        "cut": sum(line["finish_reason"] == "length" for _, line in run),
        "counts": {one.source: one.counts() for one in marks},
        "figures": {source: _figures(rows, found, resamples) for source, found in values.items()},
        "gaps": {source: _gaps(rows, found, resamples) for source, found in values.items()},
        "agreement": agreement_of(marks[0], marks[1], ids, _share) if len(marks) == 2 else None,
        "signature": signature,
    }


def _share(marks: Verdict) -> float:
    return fmean(marks.values())


def _figures(rows: Sequence[Row], values: np.ndarray, resamples: int) -> dict[str, Any]:
    found: dict[str, Any] = {grouping: {} for grouping in GROUPS}
    for grouping, group_of in GROUPS.items():
        of = [group_of(row) for row in rows]
        for group in dict.fromkeys(name for name in of if name):
            places = [place for place, name in enumerate(of) if name == group]
            interval = mean_interval(values[places], [rows[place]["scenario"] for place in places], rate=True)
            if interval:
                n = int((~np.isnan(values[places])).sum())
                found[grouping][group] = {"n": n, **as_json(interval)}
    return found


def _gaps(rows: Sequence[Row], values: np.ndarray, resamples: int) -> dict[str, Any]:
    """Explicit less implicit over the twins: of all, of each mood, of each degree of faintness."""
    place_of = {row["id"]: place for place, row in enumerate(rows)}
    twins = [(place_of[row["id"]], place_of[row["twin_of"]]) for row in rows if row["twin_of"]]

    def test(chosen: Sequence[tuple[int, int]]) -> dict[str, Any] | None:
        explicit, implicit = ([pair[side] for pair in chosen] for side in (0, 1))
        pairs = [rows[place]["scenario"] for place in implicit]
        found = paired_test(values[explicit], values[implicit], pairs, resamples=resamples)
        return as_json(found) if found else None

    gaps: dict[str, Any] = {"all": test(twins)}
    for grouping in ("mood", "faintness"):
        kinds = sorted({rows[implicit][grouping] for _, implicit in twins})
        tests = {kind: test([pair for pair in twins if rows[pair[1]][grouping] == kind]) for kind in kinds}
        known = {str(kind): found for kind, found in tests.items() if found}
        corrected = holm([found["p"] for found in known.values()])
        gaps[grouping] = {
            kind: found | {"p_holm": p} for (kind, found), p in zip(known.items(), corrected, strict=True)
        }
    return gaps
