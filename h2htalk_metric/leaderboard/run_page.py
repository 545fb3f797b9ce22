"""The page of one run: scores, contracts, signature, samples, and what the sender claims beside them."""

__all__ = ["run_page"]

from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any

from jinja2 import Environment, FileSystemLoader, Template

from h2htalk_metric.composite import COMPONENTS
from h2htalk_metric.leaderboard.admission import COMPLETE, known_records
from h2htalk_metric.leaderboard.storage import Storage
from h2htalk_metric.lexical import lexical
from h2htalk_metric.signature import signature_line
from h2htalk_metric.tokenization import clean


def run_page(storage: Storage, digest: str) -> str:
    """The page as HTML; every text from outside is escaped.

    Raises:
        H2HTalkError: the board has no such run.

    """
    row = storage.row(digest)
    return _template().render(
        row=row,
        complete=COMPLETE,
        components=COMPONENTS,
        signature=signature_line(row.signature),
        samples=_samples(storage, digest),
        figure=lambda value: "–" if value is None else f"{value:.2f}",
        share=lambda value: "–" if value is None else f"{100 * value:.2f}",
    )


@lru_cache
def _template() -> Template:
    return Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True).get_template("run_page.html")


@lru_cache(maxsize=32)
def _samples(storage: Storage, digest: str) -> dict[str, list[dict[str, Any]]]:
    submission = storage.submission(digest)
    records = known_records(submission.manifest.dataset.tasks, submission.manifest.dataset.limit)
    answers = {answer.id: answer.prediction for answer in submission.answers}
    by_task: dict[str, list[tuple[float, dict[str, Any]]]] = {}
    for record in records:
        text = clean(answers[record["id"]]).strip()
        score = fmean(lexical(text, record["reference"], record["language"])) if text else 0.0
        by_task.setdefault(record["task"], []).append((score, record))
    return {task: _three(scored, answers) for task, scored in by_task.items()}


def _three(scored: list[tuple[float, dict[str, Any]]], answers: dict[str, str]) -> list[dict[str, Any]]:
    ranked = sorted(scored, key=lambda pair: pair[0])
    places = {0: "lowest", len(ranked) // 2: "middle", len(ranked) - 1: "highest"}
    return [
        {
            "label": label,
            "id": record["id"],
            "score": score,
            "asked": record["messages"][-1]["content"],
            "answer": answers[record["id"]],
            "reference": record["reference"],
        }
        for label, (score, record) in ((label, ranked[place]) for place, label in places.items())
    ]
