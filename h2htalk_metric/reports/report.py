"""The report of a scored run: its sections, and ``report.md`` and ``report.html`` in the run folder."""

__all__ = ["print_report", "probe_section", "report_sections", "write_probe_report", "write_report"]

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from h2htalk_datasets.files import write_atomically
from h2htalk_datasets.languages import LANGUAGES
from h2htalk_metric.judge.judged_run import read_judged
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.judge.panel_scores import other_task_scores
from h2htalk_metric.probes.results import PROBE_COMMANDS, read_result
from h2htalk_metric.reports import (
    judged_tables,
    language_tables,
    memory_tables,
    planning_tables,
    probe_tables,
    run_tables,
    safety_tables,
    slice_tables,
)
from h2htalk_metric.reports.answers import read_answers
from h2htalk_metric.reports.html import report_page
from h2htalk_metric.reports.markdown import markdown
from h2htalk_metric.reports.table import Section
from h2htalk_metric.reports.terminal import print_table
from h2htalk_metric.review import agreement
from h2htalk_metric.review.estimate import review_estimate
from h2htalk_metric.review.reviews import Reviews
from h2htalk_metric.runs.run import Run
from h2htalk_metric.runs.scoring import read_scores

_PRINTED = ("languages", "scores", "judged", "judged-others", "components", "format")


def report_sections(run: Run) -> list[Section]:
    """Everything that a report says about a scored run, except for the single answers.

    A run in several languages has the sections of each language, after a section that shows them side by side.
    """
    parts = run.by_language
    results = {probe: read_result(run, probe) for probe in PROBE_COMMANDS}
    of_parts = [
        replace(section, language=code if len(parts) > 1 else "")
        for code, part in parts.items()
        for section in _scored_sections(part)
    ]
    scores = {code: read_scores(part) for code, part in parts.items()}
    judged = [read_judged(part) for part in parts.values()]
    return [
        *([language_tables.languages(scores)] if len(parts) > 1 else []),
        *of_parts,
        *(probe_section(probe, result) for probe, result in results.items() if result),
        run_tables.provenance(run.manifest, *(one.signature for one in (*scores.values(), *judged) if one)),
    ]


def _scored_sections(run: Run) -> list[Section]:
    """The sections of a scored run, or of its part in one language."""
    scores, judged, answers = read_scores(run), read_judged(run), read_answers(run)
    return [
        run_tables.scores(scores),
        *([judged_tables.judged(judged)] if judged else []),
        *_other_tasks(run),
        *([judged_tables.reviewed(agreement(run), review_estimate(run))] if Reviews.exist(run.path) else []),
        run_tables.components(scores),
        run_tables.lengths(answers),
        run_tables.format_followed(scores, answers),
        *([facts] if (facts := run_tables.fact_errors(scores)) else []),
        *([difficulty] if (difficulty := slice_tables.difficulty(run)) else []),
    ]


def _other_tasks(run: Run) -> list[Section]:
    rows, panel = other_task_scores(run), Panel.read(run.path)
    return [] if rows is None or panel is None else [judged_tables.other_tasks(rows, panel)]


def probe_section(probe: str, result: Mapping[str, Any]) -> Section:
    """The section of a probe's result; `probe` is one of :data:`PROBE_COMMANDS`."""
    sections = {
        "safety": safety_tables.safety,
        "instructions": probe_tables.instructions,
        "conversation": probe_tables.conversation,
        "planning": planning_tables.planning,
        "memory": memory_tables.memory,
    }
    return sections[probe](result)


def write_report(run: Run | str | Path) -> list[Path]:
    """Write ``report.md`` and ``report.html`` of a scored run, with every further result in its folder.

    Returns:
        The two files.

    Raises:
        H2HTalkError: the run is not scored, or its answers or records are not those that were scored.

    """
    run = Run.of(run)
    sections = report_sections(run)
    files = {
        run.path / "report.md": markdown(f"{run.model} on H2HTalk", sections),
        run.path / "report.html": report_page(run, sections),
    }
    for file, content in files.items():
        write_atomically(file, content)
    return list(files)


def write_probe_report(run: Run, probe: str, result: Mapping[str, Any]) -> list[Path]:
    """Write ``probes/NAME.md``, and the report of the run if it is scored; returns the files."""
    file = run.path / "probes" / f"{probe}.md"
    write_atomically(file, markdown(f"{result['model']}: {probe}", [probe_section(probe, result)]))
    return [file, *(write_report(run) if (run.path / "scores.parquet").exists() else [])]


def print_report(run: Run | str | Path) -> None:
    """Print the tables of a scored run."""
    run = Run.of(run)
    print(f"{run.model} on H2HTalk")
    for section in report_sections(run):
        if section.anchor in _PRINTED:
            for table in section.tables:
                in_language = LANGUAGES[section.language].native_name if section.language else ""
                print_table(replace(table, title=f"{table.title}, {in_language}") if in_language else table)
