"""The page of one run: scores, format rates, what the sender claims, how it was made, and sample answers."""

__all__ = ["run_page"]

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, Template

from h2htalk_metric.leaderboard.row import Row
from h2htalk_metric.leaderboard.storage import Storage
from h2htalk_metric.leaderboard.submission import Submission
from h2htalk_metric.leaderboard.validation import board_records, has_board_records
from h2htalk_metric.metrics.composite import COMPONENTS
from h2htalk_metric.metrics.signature import signature_line


def run_page(storage: Storage, digest: str) -> str:
    """The page as HTML; every text from outside is escaped.

    Raises:
        H2HTalkError: the board has no such run, or its submission cannot be read.

    """
    row = storage.row(digest)
    submission = storage.submission(row)
    return _template().render(
        row=row,
        components=COMPONENTS,
        manifest=submission.manifest,
        claimed=submission.claims.claimed_only,
        signature=signature_line(submission.signature.model_dump()),
        samples=_samples(row, submission),
        figure=lambda value: "–" if value is None else f"{value:.2f}",
        percent=lambda value: "–" if value is None else f"{100 * value:.2f}",
    )


def _samples(row: Row, submission: Submission) -> dict[str, list[dict[str, Any]]]:
    """The sample answers by config, with prompt and reference if the installed dataset has the records unchanged."""
    answers = {answer.id: answer.prediction for answer in submission.answers}
    records = {record["id"]: record for record in board_records(submission)} if has_board_records(submission) else {}
    return {
        task: [{"sample": sample, "answer": answers[sample.id], "record": records.get(sample.id)} for sample in samples]
        for task, samples in row.samples.items()
    }


@cache
def _template() -> Template:
    return Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True).get_template("run_page.html")
