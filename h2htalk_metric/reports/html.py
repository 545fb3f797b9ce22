"""``report.html``: a scored run as one page that works without a network."""

__all__ = ["report_page"]

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace

from markupsafe import Markup

from h2htalk_datasets.languages import LANGUAGES
from h2htalk_datasets.probes import load_briefs
from h2htalk_metric.judge.judged_run import read_judged
from h2htalk_metric.probes.conversation import read_transcripts
from h2htalk_metric.probes.results import probe_folder
from h2htalk_metric.reports.answers import FLAGS, JUDGED_FLAGS, JUDGED_NUMBERS, Answer, extremes, packed, read_answers
from h2htalk_metric.reports.rendering import TEMPLATES, render_macro, templates
from h2htalk_metric.reports.run_tables import COMPONENT_LABELS, by_task
from h2htalk_metric.reports.table import Section, ends, shown
from h2htalk_metric.runs.run import Run
from h2htalk_metric.runs.scoring import RunScores, read_scores
from h2htalk_metric.stats.aggregate import OVERALL


def report_page(run: Run, sections: Sequence[Section]) -> str:
    """The report of a scored run as one HTML page, which loads nothing from any network.

    Args:
        run: a scored run.
        sections: what to show, in addition to the answers; see
            :func:`h2htalk_metric.reports.report.report_sections`.

    Raises:
        H2HTalkError: the answers are missing, or they are of other records than the scores or the installed dataset.

    """
    parts = run.by_language
    scores, answers = {code: read_scores(part) for code, part in parts.items()}, _answers_of(parts)
    is_judged = any(read_judged(part) is not None for part in parts.values())
    bodies = [(section.id, section.heading, _body(run, section)) for section in sections]
    bodies.insert(len(bodies) - 1, ("answers", "Answers", _answers(answers, is_judged)))
    script = Markup((TEMPLATES / "report.js").read_text("utf-8"))
    return (
        templates()
        .get_template("report.html.jinja")
        .render(
            model=run.model,
            manifest=run.manifest,
            signature=next(iter(scores.values())).signature,
            overall=[_overall(code, of_language) for code, of_language in scores.items()],
            sections=bodies,
            style=Markup((TEMPLATES / "report.css").read_text("utf-8")),
            script=script,
            script_hash=b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            data=Markup(packed(answers)),
        )
    )


def _answers_of(parts: Mapping[str, Run]) -> list[Answer]:
    """The answers of all languages; in a run of several, configs have the names that they have in the dataset."""
    if len(parts) == 1:
        return read_answers(*parts.values())
    return [
        replace(answer, task=answer.task + LANGUAGES[code].config_suffix)
        for code, part in parts.items()
        for answer in read_answers(part)
    ]


def _overall(code: str, scores: RunScores) -> tuple[str, str, str]:
    """Language, Overall and its interval as text."""
    overall = scores.intervals().get(OVERALL)
    name = LANGUAGES[code].native_name
    interval = ends(overall, ".1f") if overall and overall.defined else ""
    return name, shown(overall.value) if overall else "–", interval


def _body(run: Run, section: Section) -> Markup:
    """The blocks of a section, and what only HTML shows: transcripts and the manifest."""
    body = render_macro("sections.jinja", "blocks", section=section)
    if section.anchor == "conversation":
        transcripts = read_transcripts(probe_folder(run, "conversation"))
        briefs = {brief.slug: brief for brief in load_briefs()}
        body += render_macro("sections.jinja", "transcripts", transcripts=transcripts, briefs=briefs)
    if section.anchor == "making":
        body += render_macro("sections.jinja", "manifest", text=json.dumps(run.manifest, indent=1, ensure_ascii=False))
    return body


def _answers(answers: Sequence[Answer], is_judged: bool) -> Markup:
    return render_macro(
        "sections.jinja",
        "answers",
        groups={task: extremes(members) for task, members in by_task(answers).items()},
        n=len(answers),
        components=list(COMPONENT_LABELS.values()),
        judged=list(JUDGED_NUMBERS) if is_judged else [],
        flags=FLAGS + JUDGED_FLAGS if is_judged else FLAGS,
    )
