"""The error for users: one line that says what was wrong and what to do."""

__all__ = ["H2HTalkError", "did_you_mean", "one_line", "path_error"]

import difflib
from collections.abc import Iterable


class H2HTalkError(ValueError):
    """Invalid input, or a folder in an unexpected state; the command line prints the message and exits with code 2."""


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Return ``" Did you mean X?"`` for the most similar of `choices`, or an empty string."""
    lowered = {choice.lower(): choice for choice in choices}
    similar = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    return f" Did you mean {lowered[similar[0]]}?" if similar else ""


def one_line(error: BaseException) -> str:
    """Return the message of an error as one line of at most 300 characters."""
    return " ".join(str(error).split())[:300]


def path_error(error: OSError) -> str | None:
    """Return one line that names the path of an operating system error, or None if the error has no path."""
    return None if error.filename is None else f"can't use {error.filename}: {error.strerror}"
