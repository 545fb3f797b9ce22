"""How far, how fast, how long still: a bar on a terminal, a line now and then in a log."""

__all__ = ["Progress"]

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

_LOG_EVERY = 15.0  # seconds between lines where standard error is no terminal


class Progress:
    """Reports work done out of `total`; silent unless `shown`.

    Args:
        what: what is counted, in the plural.
        total: how many there are.
        done: how many were there before.
        shown: whether this process reports.

    """

    def __init__(self, what: str, total: int, done: int = 0, shown: bool = True) -> None:
        self._what, self._total, self._before, self._done = what, total, done, done
        self._shown, self._start, self._logged = shown, time.monotonic(), 0.0
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not (shown and sys.stderr.isatty()),
        )
        self._task = self._bar.add_task(what, total=total, completed=done, rate="")

    def __enter__(self) -> "Progress":
        self._bar.start()
        if self._shown and not sys.stderr.isatty():  # the first one may take minutes
            print(f"{self._what}: {self._done}/{self._total}", file=sys.stderr, flush=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def update(self, done: int) -> None:
        """Say that `done` are there now, those from before included."""
        self._done = done
        rate = (done - self._before) / max(time.monotonic() - self._start, 1e-9)
        self._bar.update(self._task, completed=done, rate=f"{rate:.2f}/s")
        now = time.monotonic()
        if self._shown and not sys.stderr.isatty() and (now - self._logged > _LOG_EVERY or done >= self._total):
            self._logged = now
            left = (self._total - done) / rate if rate else float("inf")
            print(f"{self._what}: {done}/{self._total}, {rate:.2f}/s, {_clock(left)} left", file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    if seconds == float("inf"):
        return "?"
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02d}:{int(seconds) % 60:02d}"
