"""Has a judge moved? Thirty fixed answers, marked again and compared with what the same judge said at first."""

__all__ = ["Anchor", "check", "load_anchors"]

import json
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

import numpy as np
import yaml
from huggingface_hub.constants import HF_HOME

from h2htalk_datasets.files import write_atomically
from h2htalk_datasets.generation.chat_client import as_they_land
from h2htalk_datasets.loading import load
from h2htalk_datasets.progress import Progress
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.judge.items import judged_item
from h2htalk_metric.judge.marking import Item, Judge
from h2htalk_metric.stats.agreement import krippendorff_alpha
from h2htalk_metric.stats.intervals import Interval, mean_interval

GRADES = ("good", "middling", "bad")


class Anchor(NamedTuple):
    """An answer of known quality.

    Attributes:
        item: as a judge gets it; its id is the record's and the grade.
        grade: good, middling or bad.
        marks: our own, 0..5, criterion by criterion.

    """

    item: Item
    grade: Literal["good", "middling", "bad"]
    marks: dict[str, int]


def load_anchors(language: str = "en") -> list[Anchor]:
    """Read the thirty answers that ship with the package."""
    file = Path(__file__).parent / "anchors" / f"{language}.yaml"
    records = {row["id"]: row for task in TASKS.values() if task.judged for row in load(task.name, language)}
    anchors = []
    for kept in yaml.safe_load(file.read_text("utf-8"))["answers"]:
        item = judged_item(records[kept["id"]], kept["answer"])
        item = Item(f"{item.id}/{kept['grade']}", item.rubric, item.context, item.blocks)
        anchors.append(Anchor(item, kept["grade"], kept["marks"]))
    return anchors


def check(judge: Judge, *, in_flight: int = 8, folder: Path | None = None) -> str:
    """Let a judge mark the anchors, keep what it says, and tell how it compares.

    Args:
        judge: without a cache, since it must be asked anew.
        in_flight: calls at once.
        folder: where results are kept; ``h2htalk/drift`` under ``HF_HOME`` if not given.

    Returns:
        Lines for people: marks by grade, agreement with our own, and how far it has moved since its first check
        that marked all of them. A check that the purse stopped is not kept.

    """
    anchors = load_anchors()
    lines: dict[str, dict[str, Any]] = {}
    with Progress("anchors", len(anchors)) as progress:
        for line in as_they_land((judge.mark(anchor.item) for anchor in anchors), in_flight):
            if line is not None:
                lines[line["id"]] = line
                progress.update(len(lines))
    now = {i: line["score"] for i, line in lines.items() if "unscored" not in line}
    told = [f"{judge.name}: {len(now)} of {len(anchors)} anchor answers marked"]
    for reason in dict.fromkeys(line["unscored"] for line in lines.values() if "unscored" in line):
        told.append(f"  unscored: {reason[:200]}")
    if not now:
        told += ["  stopped, the next call might pass --max-cost"] if judge.purse.empty else []
        return "\n".join(told)
    told += _beside_ours(anchors, lines, now)
    if len(lines) < len(anchors):
        told.append("  stopped, the next call might pass --max-cost; this check is not kept")
        return "\n".join(told)
    file = _file(judge, anchors, folder)
    series = json.loads(file.read_text("utf-8")) if file.exists() else []
    if series:
        whole = [earlier for earlier in series if len(earlier["scores"]) == len(anchors)]
        told.append(_moved((whole or series)[0], now))
    else:
        told.append("  first check of this judge with this prompt and these rubrics; the next one is compared with it")
    series.append({"judge": judge.name, "at": time.strftime("%Y-%m-%d %H:%M:%S"), "scores": now})
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps(series, indent=1) + "\n")
    return "\n".join(told)


def _moved(first: dict[str, Any], now: dict[str, float]) -> str:
    both = [i for i in first["scores"] if i in now]
    if not both:
        return f"  no answer was marked both now and on {first['at']}; run the check again"
    differences = {i: now[i] - first["scores"][i] for i in both}
    moved = _interval(differences)
    largest = max(map(abs, differences.values()))
    told = f"  since {first['at']}: moved by {_told(moved)}, {len(both)} answers, the largest change {largest:.2f}"
    if not moved.defined:
        return f"{told}: too few to tell from noise, all are of one record"
    noise = moved.low <= 0 <= moved.high
    return told + (": no more than noise" if noise else ": MORE THAN NOISE: do not mix its verdicts with earlier ones")


def _interval(differences: dict[str, float]) -> Interval:
    """Their mean; the answers to one record share all but the grade, so whole records are drawn."""
    interval = mean_interval(list(differences.values()), [anchor.split("/")[0] for anchor in differences])
    assert interval is not None
    return interval


def _told(gap: Interval) -> str:
    ends = f"{gap.low:+.2f} to {gap.high:+.2f}" if gap.defined else "-"
    return f"{gap.value:+.2f} (95% interval {ends})"


def _beside_ours(anchors: Sequence[Anchor], lines: dict[str, dict[str, Any]], now: dict[str, float]) -> list[str]:
    from scipy.stats import spearmanr

    known = [anchor for anchor in anchors if anchor.item.id in now]
    means = []
    for grade in GRADES:
        scores = [now[anchor.item.id] for anchor in known if anchor.grade == grade]
        means.append(f"{grade} {fmean(scores):.2f}" if scores else f"{grade} -")
    theirs, ours = [now[a.item.id] for a in known], [fmean(a.marks.values()) for a in known]
    gaps = {a.item.id: one - other for a, one, other in zip(known, theirs, ours, strict=True)}
    rank = f"{spearmanr(theirs, ours).statistic:.2f}" if len(set(theirs)) > 1 and len(set(ours)) > 1 else "undefined"
    pairs = [(lines[a.item.id]["verdict"][name], mark) for a in known for name, mark in a.marks.items()]
    alpha = krippendorff_alpha(np.array(pairs, dtype=float).T)
    return [
        f"  mean score, 0 to 5: {', '.join(means)}",
        f"  beside our own marks: {_told(_interval(gaps))}, Spearman's rho {rank}, "
        f"Krippendorff's alpha over single marks {'undefined' if alpha is None else format(alpha, '.2f')}",
    ]


def _file(judge: Judge, anchors: Sequence[Anchor], folder: Path | None) -> Path:
    """One series per judge and all that its marks depend on; another server, prompt or rubric begins another."""
    keys = [judge.key(anchor.item) for anchor in anchors]
    name = sha256("".join(keys).encode()).hexdigest()[:16]
    return (folder or Path(HF_HOME) / "h2htalk" / "drift") / f"{name}.json"
