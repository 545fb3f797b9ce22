"""Sections and tables on standard output."""

__all__ = ["console", "print_sections", "print_table"]

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from h2htalk_metric.reports.table import Bullets, Cell, Code, Section, Table


def console(width: int = 120) -> Console:
    """Standard output.

    Args:
        width: in characters, if standard output is a file or a pipe.

    """
    # Ask the stream itself: Jupyter sets FORCE_COLOR, and rich would take a cell's pipe for an 80-column terminal.
    terminal = sys.stdout.isatty()
    return Console(force_terminal=terminal, width=None if terminal else width)


def print_sections(sections: Sequence[Section], width: int = 120) -> None:
    """Print explanations and tables."""
    out = console(width)
    for section in sections:
        out.print(Text(f"\n{section.title}", style="bold"))
        for block in section.blocks:
            if isinstance(block, Table):
                print_table(block, width)
            elif isinstance(block, Bullets):
                out.print(Text("\n".join(f"- {_printable(item)}" for item in block.items)))
            else:
                out.print(Text(_printable(block.text if isinstance(block, Code) else block)))


def print_table(table: Table, width: int = 120) -> None:
    """Print a table with its title and notes; plots are left out."""
    shown = RichTable(title=Text(_printable(table.title)), title_justify="left")
    places = [place for place, column in enumerate(table.columns) if column.kind != "plot"]
    for column in (table.columns[place] for place in places):
        shown.add_column(Text(column.title), justify="left" if column.kind == "text" else "right")
    for index, row in enumerate(table.rows):
        if index and row.group != table.rows[index - 1].group:
            shown.add_section()
        shown.add_row(*(_cell(row.cells[place], row.emphasized) for place in places))
    out = console(width)
    out.print(shown)
    for note in table.notes:
        out.print(Text(_printable(note)))


def _cell(cell: Cell, emphasized: bool) -> Text:
    text, detail = (cell, "") if isinstance(cell, str) else cell
    return Text(_printable(f"{text} ({detail})" if detail else text), style="bold" if emphasized else "")


def _printable(text: str) -> str:
    """Without control characters, which a terminal would act on."""
    return "".join(mark for mark in text if mark.isprintable() or mark == "\n")
