"""Markdown that reports are made of."""

__all__ = ["markdown_line", "markdown_table", "markdown_text"]

import re
from collections.abc import Iterable, Sequence


def markdown_text(text: str) -> str:
    """A text from outside, so that Markdown takes none of it for its own."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(text.split()))


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table, line by line; the first column to the left, figures to the right."""
    return [markdown_line(head), markdown_line(["---", *["---:"] * (len(head) - 1)]), *map(markdown_line, rows)]


def markdown_line(cells: Iterable[str]) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"
