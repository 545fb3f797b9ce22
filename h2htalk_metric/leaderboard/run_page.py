"""The page of one run: scores, contracts, signature, samples, and what the sender claims beside them."""

__all__ = ["run_page"]

from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, Template

from h2htalk_metric.leaderboard.admission import COMPLETE
from h2htalk_metric.leaderboard.storage import Storage
from h2htalk_metric.metrics.composite import COMPONENTS
from h2htalk_metric.metrics.signature import signature_line


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
        samples=storage.samples(digest),
        figure=lambda value: "–" if value is None else f"{value:.2f}",
        share=lambda value: "–" if value is None else f"{100 * value:.2f}",
    )


@lru_cache
def _template() -> Template:
    return Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True).get_template("run_page.html")
