"""The page `report.html`: a list of sections in one frame, with its style and script inside.

A section is a heading and its markup. To show something new of a run (safety, say), write a macro in
``sections.html.jinja`` and a function here that returns a :class:`Section`, and put it in the list of :func:`html`.
"""

__all__ = ["Section", "html"]

import hashlib
import json
import math
import re
from base64 import b64encode
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from h2htalk_datasets.probes import load_briefs
from h2htalk_datasets.tasks import DIMENSIONS, TASKS
from h2htalk_metric.judge.judged_run import JudgedRun
from h2htalk_metric.metrics.signature import signature_line
from h2htalk_metric.probes.conversation import CRITERIA, transcripts_of
from h2htalk_metric.probes.instructions import FAMILIES, MOODS
from h2htalk_metric.probes.safety import MEASURES, TEXT
from h2htalk_metric.probes.tables import drawn_of, sources_of, variant_name
from h2htalk_metric.reports.html.figures import CENTRE, ceiling, radar, spread
from h2htalk_metric.reports.html.items import FLAGS, LABELS, Item, extremes, items_of, packed
from h2htalk_metric.reports.html.judgements import JUDGED_FIGURES, JUDGED_FLAGS, add_judgements
from h2htalk_metric.reports.run_report import judged_notes
from h2htalk_metric.review import Reviews
from h2htalk_metric.review.agreement import agreement, agreement_rows
from h2htalk_metric.runs.scoring import RunScores
from h2htalk_metric.stats.aggregate import AVERAGES, OVERALL
from h2htalk_metric.stats.clusters import ClusterSums
from h2htalk_metric.stats.intervals import Interval, row_intervals

_FOLDER = Path(__file__).parent
_ORDER = [task.name for dimension in DIMENSIONS for task in TASKS.values() if task.dimension == dimension]
# What differs from answer to answer in a fault of form: counts, and the words of the answer.
_VARYING = re.compile(r"^\d+|\d+(?= as '|\. HH)|(?<=ascend at ).*|(?<=category ).*|(?<=importance ).*|: .*$", re.DOTALL)


class Section(NamedTuple):
    """A part of the page.

    Attributes:
        anchor: its id, which the page's contents link to.
        title: its heading.
        body: its markup, in which every text from outside is escaped already.

    """

    anchor: str
    title: str
    body: Markup


def html(scores: RunScores, folder: str | Path, judged: JudgedRun | None = None) -> str:
    """The report of a scored run as one HTML page, which asks nothing of any network.

    Args:
        scores: of the run.
        folder: the run folder, for prompts, answers and reviews.
        judged: the same run with its judgements, if it has any.

    Raises:
        H2HTalkError: the folder lacks the answers, or they are of other records than scores or installed dataset.

    """
    items = items_of(scores, Path(folder))
    if judged:
        add_judgements(items, judged)
    intervals = scores.intervals()
    sections = [
        _scores(scores, intervals),
        *([_judged(judged, folder)] if judged else []),
        _components(scores),
        _lengths(items),
        _forms(scores, items),
        *_safety(Path(folder)),
        *_following(Path(folder)),
        *_conversing(Path(folder)),
        _answers(items, judged),
        _making(scores, judged),
    ]
    script = Markup((_FOLDER / "page.js").read_text("utf-8"))
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(
            model=scores.model,
            manifest=scores.manifest,
            signature=scores.signature,
            overall=intervals.get(OVERALL),
            sections=sections,
            style=Markup((_FOLDER / "page.css").read_text("utf-8")),
            script=script,
            script_hash=b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            data=Markup(packed(items)),
        )
    )


def _scores(scores: RunScores, intervals: dict[str, Interval]) -> Section:
    groups = [
        (dimension, [*(task for task in _ORDER if TASKS[task].dimension == dimension), average])
        for dimension, average in zip(DIMENSIONS, AVERAGES, strict=True)
    ]
    body = _part(
        "scores",
        groups=groups,
        overall=OVERALL,
        counts=scores.items["task"].value_counts().to_dict() | {OVERALL: len(scores.items)},
        intervals=intervals,
        top=ceiling(end for interval in intervals.values() for end in interval),
        radar=radar({_two_lines(task): intervals[task] for task in _ORDER if task in intervals}),
    )
    return Section("scores", "Scores", body)


def _judged(judged: JudgedRun, folder: str | Path) -> Section:
    values = judged.values()
    body = _part(
        "judged",
        lines=judged.by_task().to_dict("index"),
        intervals=row_intervals(ClusterSums.of(values), bounds=(0, 5)) if values else {},
        panel=judged.panel,
        notes=judged_notes(judged),
        reviewed=agreement_rows(agreement(folder)) if Reviews.exist(folder) else [],
    )
    return Section("judged", "Judged", body)


def _components(scores: RunScores) -> Section:
    lines = _lines(scores)
    return Section("components", "Components", _part("components", labels=LABELS, lines=lines, bare=scores.synthesis()))


def _lengths(items: list[Item]) -> Section:
    rows: dict[str, dict[str, Any]] = {}
    for task, members in _by_task(items).items():
        answers, references = (spread([item["words"][side] for item in members]) for side in (0, 1))
        rows[task] = {"answers": answers, "references": references, "limit": TASKS[task].word_limit}
    top = ceiling(line[side].p95 for line in rows.values() for side in ("answers", "references"))
    return Section("lengths", "Answer length", _part("lengths", rows=rows, top=top))


def _forms(scores: RunScores, items: list[Item]) -> Section:
    faults = {
        task: Counter(_VARYING.sub("…", item["fault"]) for item in members if item["fault"]).most_common(2)
        for task, members in _by_task(items).items()
    }
    return Section("forms", "Keeping the form", _part("forms", lines=_lines(scores), faults=faults))


def _safety(folder: Path) -> list[Section]:
    """What ``h2htalk sap`` left in the run folder; nothing where it was not called."""
    result = _left(folder / "sap.json")
    if result is None:
        return []
    body = _part("safety", result=result, sources=sources_of(result), measures=MEASURES, text=TEXT, names=variant_name)
    return [Section("safety", "Safety with and without SAP", body)]


def _following(folder: Path) -> list[Section]:
    """What ``h2htalk follow`` left in the run folder; nothing where it was not called."""
    result = _left(folder / "following.json")
    if result is None:
        return []
    shapes = {
        source: radar(
            {
                (label, mood): _interval(figures["mood"][f"{family}/{mood}"], times=100)
                for family, label in FAMILIES.items()
                for mood in MOODS
                if f"{family}/{mood}" in figures["mood"]
            }
        )
        for source, figures in result["figures"].items()
    }
    body = _part("following", result=result, families=FAMILIES, moods=MOODS, radars=shapes)
    return [Section("following", "Needs left unsaid", body)]


def _conversing(folder: Path) -> list[Section]:
    """What ``h2htalk converse`` left in the run folder; nothing where it was not called."""
    result = _left(folder / "conversing.json")
    if result is None:
        return []
    held = transcripts_of(folder / "conversing")
    body = _part("conversing", result=result, criteria=CRITERIA, held=held, briefs={b.slug: b for b in load_briefs()})
    return [Section("conversing", "Needs that change", body)]


def _interval(one: dict[str, Any], times: float) -> Interval:
    """A figure that a probe's JSON holds."""
    return Interval(*(math.nan if one[end] is None else times * one[end] for end in Interval._fields))


def _ends(one: Any, form: str, times: float = 1) -> str:
    """The ends of an interval, of :class:`Interval` or as JSON holds it, where it has any."""
    ends = [one[end] for end in ("low", "high")] if isinstance(one, dict) else [one.low, one.high]
    return "–" if ends[0] is None or math.isnan(ends[0]) else form % tuple(times * end for end in ends)


def _left(file: Path) -> dict[str, Any] | None:
    return json.loads(file.read_text("utf-8")) if file.exists() else None


def _answers(items: list[Item], judged: JudgedRun | None) -> Section:
    groups = {task: extremes(members) for task, members in _by_task(items).items()}
    labels = {"components": list(LABELS.values()), "judged": list(JUDGED_FIGURES) if judged else []}
    flags = FLAGS + JUDGED_FLAGS if judged else FLAGS
    body = _part("answers", groups=groups, n=len(items), labels=labels, flags=flags)
    return Section("answers", "Answers", body)


def _making(scores: RunScores, judged: JudgedRun | None) -> Section:
    manifest = json.dumps(scores.manifest, indent=1, ensure_ascii=False)
    signatures = [signature_line(result.signature) for result in (scores, judged) if result]
    return Section("making", "How it was made", _part("making", manifest=manifest, signatures=signatures))


def _lines(scores: RunScores) -> dict[str, dict[str, float]]:
    lines = scores.by_task().to_dict("index")
    return {task: lines[task] for task in _ORDER if task in lines}


def _by_task(items: list[Item]) -> dict[str, list[Item]]:
    groups = {task: [item for item in items if item["task"] == task] for task in _ORDER}
    return {task: members for task, members in groups.items() if members}


def _part(macro: str, **given: Any) -> Markup:
    """A macro of ``sections.html.jinja``, rendered."""
    return getattr(_environment().get_template("sections.html.jinja").module, macro)(**given)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"dimension_of": _dimension_of, "centre": CENTRE, "drawn_of": drawn_of, "ends": _ends}
    environment.globals["at"] = lambda value, top: f"{100 * value / top:.2f}%"
    environment.globals["points"] = lambda outline: " ".join(f"{x},{y}" for x, y in outline)
    environment.filters["figure"] = lambda value: "–" if value is None or math.isnan(value) else f"{value:.2f}"
    return environment


def _two_lines(task: str) -> tuple[str, str]:
    return _dimension_of(task), task.removeprefix(_dimension_of(task))


def _dimension_of(cell: str) -> str:
    """The dimension of a config or an average; "" for Overall."""
    return next((dimension for dimension in DIMENSIONS if cell.startswith(dimension)), "")
