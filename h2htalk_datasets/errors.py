"""The one error that is meant for people: a line that says what was wrong and what to do."""

__all__ = ["H2HTalkError", "did_you_mean", "one_line", "path_fault"]

import difflib
from collections.abc import Iterable


class H2HTalkError(ValueError):
    """Wrong input or a wrong state of a folder; the command line prints it and exits with 2."""


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Return ``" Did you mean X?"`` for the nearest of `choices`, or an empty string."""
    lowered = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    return f" Did you mean {lowered[near[0]]}?" if near else ""


def one_line(error: BaseException) -> str:
    """What an error says, in one line of at most 300 characters."""
    return " ".join(str(error).split())[:300]


def path_fault(error: OSError) -> str | None:
    """The line for a path that can't be used; None for an error that names no path, which nobody gave."""
    return None if error.filename is None else f"can't use {error.filename}: {error.strerror}"
