"""Render the Jinja templates in ``templates/``: the HTML report and its figures."""

__all__ = ["TEMPLATES", "dimension_of", "render_macro", "short_name", "templates"]

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from h2htalk_datasets.tasks import DIMENSIONS

TEMPLATES = Path(__file__).parent / "templates"


def render_macro(file: str, name: str, **arguments: Any) -> Markup:
    """Render one macro of a template file; texts are escaped."""
    return getattr(templates().get_template(file).module, name)(**arguments)


@cache
def templates() -> Environment:
    """The environment of all templates."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["at"] = lambda value, top: f"{100 * value / top:.2f}%"
    environment.globals["points"] = lambda outline: " ".join(f"{x},{y}" for x, y in outline)
    environment.globals |= {"dimension_of": dimension_of, "short_name": short_name}
    return environment


def dimension_of(cell: str) -> str:
    """The dimension of a config or of an average; empty for Overall."""
    return next((dimension for dimension in DIMENSIONS if cell.startswith(dimension)), "")


def short_name(task: str) -> str:
    """A config's name without its dimension."""
    return task.removeprefix(dimension_of(task))
