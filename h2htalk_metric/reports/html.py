"""``report.html``: a scored run as one page that works without a network."""

__all__ = ["report_page"]

import hashlib
import json
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from h2htalk_datasets.probes import load_briefs
from h2htalk_metric.judge.judged_run import read_judged
from h2htalk_metric.probes.conversation import read_transcripts
from h2htalk_metric.probes.results import probe_folder
from h2htalk_metric.reports.answers import FLAGS, JUDGED_FLAGS, JUDGED_NUMBERS, Answer, extremes, packed, read_answers
from h2htalk_metric.reports.run_tables import COMPONENT_LABELS, by_dimension, dimension_of, short_name
from h2htalk_metric.reports.table import Section, ends, shown
from h2htalk_metric.runs.run import Run
from h2htalk_metric.runs.scoring import read_scores
from h2htalk_metric.stats.aggregate import OVERALL

_TEMPLATES = Path(__file__).parent / "templates"


def report_page(run: Run, sections: Sequence[Section]) -> str:
    """The report of a scored run as one HTML page, which loads nothing from any network.

    Args:
        run: a scored run.
        sections: what to show, besides the answers themselves; see
            :func:`h2htalk_metric.reports.report.report_sections`.

    Raises:
        H2HTalkError: the answers are missing, or they are of other records than the scores or the installed dataset.

    """
    scores, judged = read_scores(run), read_judged(run)
    answers = read_answers(run, judged)
    bodies = [(section.anchor, section.title, _body(run, section)) for section in sections]
    bodies.insert(len(bodies) - 1, ("answers", "Answers", _answers(answers, with_judgements=judged is not None)))
    script = Markup((_TEMPLATES / "report.js").read_text("utf-8"))
    overall = scores.intervals().get(OVERALL)
    return (
        _templates()
        .get_template("report.html.jinja")
        .render(
            model=run.model,
            manifest=run.manifest,
            signature=scores.signature,
            overall=(shown(overall.value), ends(overall, ".1f")) if overall else ("–", ""),
            sections=bodies,
            style=Markup((_TEMPLATES / "report.css").read_text("utf-8")),
            script=script,
            script_hash=b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            data=Markup(packed(answers)),
        )
    )


def _body(run: Run, section: Section) -> Markup:
    """The blocks of a section, and what only HTML shows: transcripts and the manifest."""
    body = _macro("blocks", section=section)
    if section.anchor == "conversation":
        briefs = {brief.slug: brief for brief in load_briefs()}
        body += _macro("transcripts", transcripts=read_transcripts(probe_folder(run, "conversation")), briefs=briefs)
    if section.anchor == "making":
        body += _macro("manifest", text=json.dumps(run.manifest, indent=1, ensure_ascii=False))
    return body


def _answers(answers: Sequence[Answer], *, with_judgements: bool) -> Markup:
    tasks = {answer.task: [other for other in answers if other.task == answer.task] for answer in answers}
    return _macro(
        "answers",
        groups={task: extremes(tasks[task]) for task in by_dimension(tasks)},
        n=len(answers),
        components=list(COMPONENT_LABELS.values()),
        judged=list(JUDGED_NUMBERS) if with_judgements else [],
        flags=FLAGS + JUDGED_FLAGS if with_judgements else FLAGS,
    )


def _macro(name: str, **arguments: Any) -> Markup:
    return getattr(_templates().get_template("sections.jinja").module, name)(**arguments)


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"dimension_of": dimension_of, "short_name": short_name}
    return environment
