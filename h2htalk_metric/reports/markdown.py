"""Sections and tables as Markdown."""

__all__ = ["markdown", "markdown_table", "markdown_text"]

import re
from collections.abc import Sequence

from h2htalk_metric.reports.table import Bullets, Cell, Code, Section, Table

_SPECIAL = re.compile(r"[\\`*\[\]<>|#]|(?<![^\W_])_|_(?![^\W_])")  # an underscore inside a word is no markup


def markdown(title: str, sections: Sequence[Section]) -> str:
    """A document with a heading per section; all texts are escaped."""
    parts = [f"# {markdown_text(title)}"]
    for section in sections:
        parts.append(f"## {markdown_text(section.heading)}")
        num_tables = len(section.tables)
        for block in section.blocks:
            if isinstance(block, Table):
                parts += [f"### {markdown_text(block.title)}"] if num_tables > 1 else []
                parts += [markdown_table(block), *map(markdown_text, block.notes)]
            elif isinstance(block, Bullets):
                parts.append("\n".join(f"- {markdown_text(item)}" for item in block.items))
            elif isinstance(block, Code):
                parts.append(f"`{' '.join(block.text.replace('`', '').split())}`")
            else:
                parts.append(markdown_text(block))
    return "\n\n".join(parts) + "\n"


def markdown_table(table: Table) -> str:
    """The table without its title and notes; plots are left out."""
    places = [place for place, column in enumerate(table.columns) if column.kind != "plot"]
    columns = [table.columns[place] for place in places]
    lines = [
        _line([markdown_text(column.title) for column in columns]),
        _line(["---" if column.kind == "text" else "---:" for column in columns]),
    ]
    for row in table.rows:
        cells = [_cell(row.cells[place]) for place in places]
        lines.append(_line([f"**{cell}**" if row.emphasized and cell else cell for cell in cells]))
    return "\n".join(lines)


def markdown_text(text: str) -> str:
    """Text from outside on one line, escaped so that Markdown shows it as it is."""
    return _SPECIAL.sub(r"\\\g<0>", " ".join(text.split()))


def _cell(cell: Cell) -> str:
    text, detail = (cell, "") if isinstance(cell, str) else cell
    return markdown_text(f"{text} ({detail})" if detail else text)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
