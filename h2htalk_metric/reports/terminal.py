"""Where tables are printed: a terminal's own width, and plain text of one width everywhere else."""

__all__ = ["console"]

import sys

from rich.console import Console


def console(width: int = 120) -> Console:
    """Standard output.

    Args:
        width: in characters, where standard output is a file or a pipe.

    """
    # Asked of the stream itself: Jupyter sets FORCE_COLOR, and rich would take a cell's pipe for an 80-column terminal.
    terminal = sys.stdout.isatty()
    return Console(force_terminal=terminal, width=None if terminal else width)
