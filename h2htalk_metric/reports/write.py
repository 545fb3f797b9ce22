"""Show a scored run: its tables on standard output, report.md and report.html in its folder."""

__all__ = ["show", "write_page"]

from pathlib import Path

from h2htalk_datasets.files import write_atomically
from h2htalk_metric.judge.judged_run import JudgedRun
from h2htalk_metric.reports import run_report as report
from h2htalk_metric.reports.html import html
from h2htalk_metric.reports.terminal import console
from h2htalk_metric.review import Reviews, agreement, human_scores
from h2htalk_metric.review.agreement import agreement_lines
from h2htalk_metric.runs.scoring import RunScores


def show(folder: Path, scores: RunScores) -> None:
    """Print the tables of a scored run, and write its report.md and report.html."""
    judged = JudgedRun.read(folder, scores, human_scores(folder))
    reviewed = agreement_lines(agreement(folder)) if Reviews.exist(folder) else []
    out = console()
    out.print(report.scores_table(scores, judged))
    out.print(report.components_table(scores))
    if judged:
        out.print(report.judged_table(judged))
        print("\n".join(report.judged_notes(judged)))
    file = folder / "report.md"
    write_atomically(file, report.markdown(scores, judged, reviewed))
    print(f"report: {file} and {write_page(folder, scores, judged)}")


def write_page(folder: Path, scores: RunScores, judged: JudgedRun | None) -> Path:
    """Write report.html, with a section for each further result that lies in the folder."""
    page = folder / "report.html"
    write_atomically(page, html(scores, folder, judged))
    return page
