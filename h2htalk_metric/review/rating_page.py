"""The page on localhost where people mark answers.

The page builds everything it shows as text nodes, so nothing in an answer is read as HTML or Markdown. It calls
:func:`server_functions`; each takes and returns plain JSON, and shows a rater only their own marks.
"""

__all__ = ["build", "serve", "server_functions"]

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.review.protocol import is_open_for, order
from h2htalk_metric.review.review_item import ReviewItem
from h2htalk_metric.review.reviews import Reviews

if TYPE_CHECKING:
    from gradio import Blocks

_FOLDER = Path(__file__).parent

ServerFunction = Callable[[dict[str, Any]], dict[str, Any]]


def serve(reviews: Reviews, port: int | None = None) -> None:
    """Serve the page on 127.0.0.1 until interrupted.

    Args:
        reviews: what is marked.
        port: of the page; None: the first free one from 7860 on.

    Raises:
        H2HTalkError: the port is in use, or Gradio is not installed.

    """
    page = build(reviews)
    try:
        page.launch(
            server_name="127.0.0.1",
            server_port=port,
            share=False,
            head=f"<style>{(_FOLDER / 'rating_page.css').read_text('utf-8')}</style>",  # `css` would style only a part
            theme=_theme(),
            footer_links=[],
            enable_monitoring=False,
        )
    except OSError as error:
        raise H2HTalkError(f"cannot serve the page ({error}); name another --port") from None


def build(reviews: Reviews) -> "Blocks":
    """The page as Gradio blocks.

    Raises:
        H2HTalkError: Gradio is not installed.

    """
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    try:
        import gradio
    except ImportError:
        raise H2HTalkError("the page needs Gradio; install it: pip install 'h2htalk[review]'") from None
    with gradio.Blocks(title="Review", fill_width=True, analytics_enabled=False) as page:
        gradio.HTML(
            html_template='<div class="review"></div>',
            js_on_load=(_FOLDER / "rating_page.js").read_text("utf-8"),
            apply_default_css=False,
            server_functions=server_functions(reviews),
        )
    return page


def server_functions(reviews: Reviews) -> list[ServerFunction]:
    """What the page calls: enter, show, keep, save. An error for the rater is returned as ``{"error": ...}``."""

    @_with_errors
    def enter(request: dict[str, Any]) -> dict[str, Any]:
        rater = reviews.rater_name(request["rater"])
        return {"rater": rater, "items": _queue(reviews, rater)}

    @_with_errors
    def show(request: dict[str, Any]) -> dict[str, Any]:
        marks, comment = reviews.current(request["item"], request["rater"])
        return _shown(reviews.item(request["item"])) | {"marks": marks, "comment": comment}

    @_with_errors
    def keep(request: dict[str, Any]) -> dict[str, Any]:
        reviews.save_draft(request["item"], request["rater"], request["marks"], request["comment"])
        return {"changed": request["item"] in reviews.unsaved(request["rater"])}

    @_with_errors
    def save(request: dict[str, Any]) -> dict[str, Any]:
        reviews.save(request["item"], request["rater"], request["marks"], request["comment"])
        return {"items": _queue(reviews, reviews.rater_name(request["rater"]))}

    return [enter, show, keep, save]


def _with_errors(function: ServerFunction) -> ServerFunction:
    @wraps(function)
    def answer(request: dict[str, Any]) -> dict[str, Any]:
        try:
            return function(request)
        except H2HTalkError as error:
            return {"error": str(error)}

    return answer


def _queue(reviews: Reviews, rater: str) -> list[dict[str, Any]]:
    """A rater's items in their order: those they marked, and those that need another rater."""
    latest, unsaved = reviews.latest(), reviews.unsaved(rater)
    queue = []
    for item in order(reviews.items, reviews.settings["seed"], rater):
        by_rater = {name: review.marks for name, review in latest[item].items()}
        if is_open_for(reviews.items[item].rubric, by_rater, rater):
            queue.append({"id": item, "done": rater in by_rater, "changed": item in unsaved})
    return queue


def _shown(item: ReviewItem) -> dict[str, Any]:
    """Everything about an item that a rater may see: not its group, and nothing about the model or the judge."""
    return {
        "id": item.id,
        "task": item.task,
        "parts": [part._asdict() for part in item.parts],
        "reference": item.reference,
        "answer": item.answer,
        "criteria": [
            {"name": c.name, "question": c.question, "levels": [[level, text] for level, text in c.levels.items()]}
            for c in item.rubric.criteria
        ],
    }


def _theme() -> Any:
    from gradio.themes import Base

    # Only fonts of the machine: the page loads nothing from elsewhere.
    return Base(font=["ui-sans-serif", "system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])
