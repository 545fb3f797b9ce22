"""Results as data: sections of explanations and tables, which the renderers show as Markdown, on a terminal or as HTML.

All texts are plain. A renderer escapes them, so names and answers of models can stand anywhere.
"""

__all__ = [
    "DETECTABLE",
    "DETECTABLE_BY_FLIPS",
    "DETECTABLE_PAIRED",
    "Bullets",
    "Cell",
    "Code",
    "Column",
    "Figure",
    "Row",
    "Section",
    "Table",
    "ends",
    "numbers",
    "shown",
]

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from markupsafe import Markup

from h2htalk_datasets.languages import LANGUAGES
from h2htalk_metric.stats.intervals import Interval

Cell = str | tuple[str, str]
"""A text, or a text and its detail (for instance the interval of a value). Cells of a plot column are SVG."""

DETECTABLE = (
    "Detectable: smallest difference to another run that a test finds (80% power, 5% level) if the errors of the two "
    "runs are independent. Tests of pairs of answers usually find smaller ones."
)
"""Explains this column in a table of means of one run."""
DETECTABLE_PAIRED = "Detectable: smallest true difference that a test finds with 80% power at 5%."
"""Explains this column in a table of differences."""
DETECTABLE_BY_FLIPS = (
    "Detectable: smallest true difference that this test finds with 80% power at 5%; none with fewer than six "
    "clusters, whose sign flips cannot give p < 0.05."
)
"""Explains this column in a table of differences that are tested by sign flips."""


class Column(NamedTuple):
    """One column.

    Attributes:
        title: its head; in a plot column SVG.
        kind: ``text`` is aligned left, ``number`` right; ``plot`` is shown in HTML only.
        narrow: whether HTML shows it on narrow screens.

    """

    title: str
    kind: Literal["text", "number", "plot"] = "number"
    narrow: bool = True


class Row(NamedTuple):
    """One row.

    Attributes:
        cells: one per column.
        group: rows of one group stand together and have its colour, for instance a dimension.
        emphasized: averages and totals.

    """

    cells: tuple[Cell, ...]
    group: str = ""
    emphasized: bool = False


class Figure(NamedTuple):
    """An SVG next to a table, in HTML only."""

    svg: Markup
    caption: str


@dataclass(frozen=True)
class Table:
    """One table.

    Attributes:
        title: what the table shows, for a terminal and for tables after the first one of a section.
        columns: in order.
        rows: in order.
        notes: sentences below the table.
        figure: shown next to the table in HTML.
        plot_note: what its plots show, in HTML only.
        shaded: whether HTML shades the number cells by their value, 0..100.

    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    figure: Figure | None = None
    plot_note: str = ""
    shaded: bool = False


class Bullets(NamedTuple):
    """A list of short texts."""

    items: tuple[str, ...]


class Code(NamedTuple):
    """A text in a fixed-width font, for instance a signature."""

    text: str


@dataclass(frozen=True)
class Section:
    """A part of a report.

    Attributes:
        anchor: its id in HTML, unless it is about one of several languages.
        title: its heading, likewise.
        blocks: paragraphs (str), tables, lists and code, in order.
        language: code of the language that it is about, in a report of several languages.

    """

    anchor: str
    title: str
    blocks: tuple[str | Table | Bullets | Code, ...]
    language: str = ""

    @property
    def id(self) -> str:
        """Its id in HTML."""
        return f"{self.anchor}-{self.language}" if self.language else self.anchor

    @property
    def heading(self) -> str:
        """Its title, with the language if it is about one of several."""
        return f"{self.title}, {LANGUAGES[self.language].native_name}" if self.language else self.title

    @property
    def tables(self) -> list[Table]:
        """The tables among the blocks."""
        return [block for block in self.blocks if isinstance(block, Table)]


def numbers(*titles: str) -> tuple[Column, ...]:
    """Number columns with these titles."""
    return tuple(Column(title) for title in titles)


def shown(value: float | None, form: str = ".2f") -> str:
    """A number as text, ``-`` if it is None or NaN."""
    return "-" if value is None or math.isnan(value) else format(value, form)


def ends(interval: Interval | None, form: str = ".2f") -> str:
    """The ends of an interval as text, ``-`` if there is none or it is undefined."""
    return "-" if interval is None or not interval.defined else f"{interval.low:{form}} to {interval.high:{form}}"
