"""Progress on standard error: a bar on a terminal, an update every 15 seconds in a log."""

__all__ = ["progress_bar"]

import sys

from tqdm import tqdm


def progress_bar(what: str, total: int, done: int = 0, shown: bool = True) -> "tqdm[None]":
    """Return a progress bar, a context manager with ``update(number)``.

    Args:
        what: is counted, in the plural.
        total: how many there are.
        done: how many were done before; they do not count for the rate.
        shown: whether this process prints anything.

    """
    terminal = sys.stderr.isatty()
    bar = "|{bar:30}| " if terminal else ""
    return tqdm(
        desc=what,
        total=total,
        initial=done,
        disable=not shown,
        mininterval=0.1 if terminal else 15,
        miniters=1,
        unit=what.removesuffix("s"),
        bar_format="{desc}: {n_fmt}/{total_fmt} " + bar + "{rate_fmt}, {remaining} left",
    )
