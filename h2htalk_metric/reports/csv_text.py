"""CSV that is safe to open in a spreadsheet: no cell is run as a formula or read as a number by mistake."""

__all__ = ["csv_text", "escape_cell", "unescape_cell"]

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence

# The signs that start a formula, also in full width, and hashes that look like a number (557e407). Apostrophes before
# them are part of the text.
_FORMULA = re.compile(r"'*(\s*[=+\-@＝＋－＠]|[\t\r\n]|\d+(e\d+)?$)")


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Content of a CSV file with a header line; texts are escaped, every field is quoted.

    Quotes keep a field in one cell even in a spreadsheet that splits at semicolons.

    Args:
        columns: names in order.
        rows: column name to value; a missing column gives an empty field.

    """
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, columns, restval="", quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: escape_cell(cell) if isinstance(cell, str) else cell for name, cell in row.items()})
    return out.getvalue()


def escape_cell(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would take for a formula or a number."""
    return f"'{text}" if _FORMULA.match(text) else text


def unescape_cell(cell: str) -> str:
    """The text that :func:`escape_cell` was called with."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
