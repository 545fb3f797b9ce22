"""Has a judge drifted? It judges fixed answers again, by default thirty, and is compared with its first check."""

__all__ = ["Anchor", "check_drift", "compare_checks", "load_anchors"]

import json
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

import numpy as np

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import cache_folder, parse_yaml, write_atomically
from h2htalk_datasets.generation.concurrency import as_completed
from h2htalk_datasets.loading import load
from h2htalk_datasets.progress import progress_bar
from h2htalk_metric.judge.judge import Judge
from h2htalk_metric.judge.judge_items import JUDGED_TASKS, JudgeItem, judge_item
from h2htalk_metric.judge.judgement import Judgement
from h2htalk_metric.stats.agreement import krippendorff_alpha
from h2htalk_metric.stats.intervals import Interval, mean_interval

GRADES = ("good", "middling", "bad")
_STOPPED = "  stopped: the next call might exceed --max-cost"


class Anchor(NamedTuple):
    """An answer of known quality.

    Attributes:
        item: as a judge sees it; its id is the record's id and the grade.
        grade: good, middling or bad.
        scores: our own, 0..5 per criterion.

    """

    item: JudgeItem
    grade: Literal["good", "middling", "bad"]
    scores: dict[str, int]


def load_anchors(language: str = "en", tasks: Sequence[str] = JUDGED_TASKS) -> list[Anchor]:
    """Read answers of known quality that ship with the package, one per record and grade.

    Args:
        language: of the records.
        tasks: config names. The tasks of Eq. 3 have thirty answers together, every other task has three.

    """
    file = Path(__file__).parent / "anchors" / f"{language}.yaml"
    if not file.exists():
        raise H2HTalkError(f"there are no answers of known quality in the language {language!r}")
    records = {row["id"]: row for task in tasks for row in load(task, language)}
    anchors = []
    for answer in parse_yaml(file.read_text("utf-8"))["answers"]:
        if answer["id"] not in records:
            continue
        item = judge_item(records[answer["id"]], answer["answer"])
        item = JudgeItem(f"{item.id}/{answer['grade']}", item.rubric, item.context, item.blocks, item.item_context)
        anchors.append(Anchor(item, answer["grade"], answer["marks"]))
    return anchors


def check_drift(
    judge: Judge,
    *,
    max_connections: int = 8,
    folder: Path | None = None,
    tasks: Sequence[str] = JUDGED_TASKS,
    language: str = "en",
) -> str:
    """Let a judge judge the anchors, store its scores, and compare them with its first check.

    Args:
        judge: without a cache, because every verdict must be new.
        max_connections: calls in flight.
        folder: of the results; None: ``h2htalk/drift`` under ``HF_HOME``.
        tasks: whose anchors are judged; other tasks are another series of checks.
        language: of the anchors; another language is another series, too.

    Returns:
        Lines of text: scores by grade, agreement with our own scores, and the change since the judge's first check
        that covers all anchors. A check that the budget stopped is not stored.

    """
    anchors = load_anchors(language, tasks)
    judgements = _judge_anchors(judge, anchors, max_connections)
    scores = {one.record_id: one.score for one in judgements if one.score is not None}
    lines = [f"{judge.name}: {len(scores)} of {len(anchors)} anchor answers judged"]
    reasons = dict.fromkeys(one.unscored for one in judgements if one.unscored is not None)
    lines += [f"  unscored: {reason[:200]}" for reason in reasons]
    if scores:
        lines += _against_own_scores(anchors, judgements)
    if len(judgements) < len(anchors):
        lines.append(f"{_STOPPED}; this check is not stored")
    elif scores:
        lines.append(_store(judge, anchors, scores, folder))
    return "\n".join(lines)


def compare_checks(first: Mapping[str, Any], scores: Mapping[str, float]) -> str:
    """One line about the change of a judge since an earlier check.

    Args:
        first: the earlier check: `at` (time) and `scores` by anchor id.
        scores: of the present check, by anchor id.

    """
    both = [i for i in first["scores"] if i in scores]
    if not both:
        return f"  no answer was judged both now and on {first['at']}; run the check again"
    differences = {i: scores[i] - first["scores"][i] for i in both}
    change = _interval(differences)
    largest = max(map(abs, differences.values()))
    line = f"  since {first['at']}: changed by {_text(change)}, {len(both)} answers, the largest change {largest:.2f}"
    if not change.defined:
        return f"{line}: too few to tell from noise, all are of one record"
    if change.low <= 0 <= change.high:
        return f"{line}: not more than noise"
    return f"{line}: MORE THAN NOISE: do not mix its verdicts with earlier ones"


def _judge_anchors(judge: Judge, anchors: Sequence[Anchor], max_connections: int) -> list[Judgement]:
    judgements = []
    with progress_bar("anchors", len(anchors)) as progress:
        for judgement in as_completed((judge.evaluate(anchor.item) for anchor in anchors), max_connections):
            if judgement is not None:
                judgements.append(judgement)
                progress.update(1)
    return judgements


def _store(judge: Judge, anchors: Sequence[Anchor], scores: Mapping[str, float], folder: Path | None) -> str:
    """Append this check to the judge's series; returns the comparison with the first one that covers all anchors."""
    file = _file(judge, anchors, folder)
    checks = json.loads(file.read_text("utf-8")) if file.exists() else []
    complete = [check for check in checks if len(check["scores"]) == len(anchors)]
    line = "  first check of this judge with this prompt and these rubrics; the next one is compared with it"
    if checks:
        line = compare_checks((complete or checks)[0], scores)
    checks.append({"judge": judge.name, "at": time.strftime("%Y-%m-%d %H:%M:%S"), "scores": scores})
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps(checks, indent=1) + "\n")
    return line


def _against_own_scores(anchors: Sequence[Anchor], judgements: Sequence[Judgement]) -> list[str]:
    from scipy.stats import spearmanr

    by_id = {one.record_id: one for one in judgements if one.score is not None}
    judged = [(anchor, by_id[anchor.item.id]) for anchor in anchors if anchor.item.id in by_id]
    means = []
    for grade in GRADES:
        scores = [one.score for anchor, one in judged if anchor.grade == grade and one.score is not None]
        means.append(f"{grade} {fmean(scores):.2f}" if scores else f"{grade} -")
    own = {anchor.item.id: fmean(anchor.scores.values()) for anchor, _ in judged}
    judge = {one.record_id: one.score or 0.0 for _, one in judged}
    differences = {i: judge[i] - own[i] for i in own}
    varied = len(set(judge.values())) > 1 and len(set(own.values())) > 1
    rank = f"{spearmanr(list(judge.values()), list(own.values())).statistic:.2f}" if varied else "undefined"
    pairs = [(one.scores[name], score) for anchor, one in judged for name, score in anchor.scores.items()]
    alpha = krippendorff_alpha(np.array(pairs, dtype=float).T)
    return [
        f"  mean score, 0 to 5: {', '.join(means)}",
        f"  judge minus our own scores: {_text(_interval(differences))}, Spearman's rho {rank}, "
        f"Krippendorff's alpha over single criteria {'undefined' if alpha is None else format(alpha, '.2f')}",
    ]


def _interval(differences: Mapping[str, float]) -> Interval:
    """Their mean, clustered by record: the answers to one record share all but the grade."""
    interval = mean_interval(list(differences.values()), [anchor.split("/")[0] for anchor in differences])
    assert interval is not None
    return interval


def _text(interval: Interval) -> str:
    ends = f"{interval.low:+.2f} to {interval.high:+.2f}" if interval.defined else "-"
    return f"{interval.value:+.2f} (95% interval {ends})"


def _file(judge: Judge, anchors: Sequence[Anchor], folder: Path | None) -> Path:
    """One series per judge and everything that its scores depend on; another server, prompt or rubric starts a new."""
    keys = "".join(judge.key(anchor.item) for anchor in anchors)
    return (folder or cache_folder() / "drift") / f"{sha256(keys.encode()).hexdigest()[:16]}.json"
