"""The watchdog ends a job of one or many processes early: after an error, a signal, or the loss of a node.

The main thread may be busy for hours (an answer, a collective, loading a model), so two other threads do the work. One
waits for signals. The other is the :class:`~h2htalk_datasets.generation.distributed.heartbeat.Heartbeat`. So no rank
waits forever for one that will never come, on one node or on many.
"""

__all__ = ["RESUME_HINT", "Watchdog", "watched"]

import functools
import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn, ParamSpec, TypeVar

from h2htalk_datasets.errors import H2HTalkError, path_error
from h2htalk_datasets.generation.distributed.heartbeat import BEAT_SECONDS, STORE_SECONDS, Heartbeat

RESUME_HINT = "finished answers are on disk; run the same command again to continue"
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Watchdog:
    """Ends the process, and with it all ranks of the job, as soon as one of them fails.

    The main thread of each process enters it as early as it can. In a single process errors are raised as usual and
    only signals are handled. Exit codes: 2 for an :class:`H2HTalkError`, a path that cannot be used or a lost rank, 1
    for any other error, 143 for SIGTERM and 130 for SIGINT. Only the rank that fails first prints its error; on every
    other node one rank prints which node ended the job, and why.
    """

    def __init__(self) -> None:
        self._rank, self._local_rank = (int(os.environ.get(name, "0")) for name in ("RANK", "LOCAL_RANK"))
        world_size = int(os.environ.get("WORLD_SIZE", "1"))
        self._heartbeat = Heartbeat(self._rank, world_size) if world_size > 1 else None
        self._launcher = os.getppid() if "TORCHELASTIC_RUN_ID" in os.environ else None
        self._ending = threading.Lock()
        self._left = threading.Event()

    def __enter__(self) -> "Watchdog":
        self._signals, self._wakeup = socket.socketpair()
        self._wakeup.setblocking(False)
        # A signal writes to the wakeup socket also while the main thread is in C code and cannot run a handler.
        self._handlers = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
        self._previous_wakeup = signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        if self._heartbeat:
            self._heartbeat.start()
        threading.Thread(target=self._watch, name="h2htalk-watchdog", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._heartbeat and isinstance(error, Exception):
            self._end(*self._report(error))
        if self._heartbeat:
            self._heartbeat.leave()
        self._left.set()
        signal.set_wakeup_fd(self._previous_wakeup)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _report(self, error: Exception) -> tuple[int, str, str]:
        """Return exit code, line and traceback of an error; no traceback for an error that the user can fix."""
        reason = path_error(error) if isinstance(error, OSError) else None
        if isinstance(error, H2HTalkError):
            reason = str(error)
        if reason is not None:
            return 2, f"error (rank {self._rank}): {reason}", ""
        details = "".join(traceback.format_exception(error))
        return 1, f"error (rank {self._rank}): {type(error).__name__}: {error}", details

    def _watch(self) -> None:
        while not self._left.is_set():
            if select.select([self._signals], [], [], BEAT_SECONDS)[0]:
                number = self._signals.recv(1)[0]
                if number in _SIGNALS:
                    self._end(128 + number, f"stopped by {signal.Signals(number).name}; {RESUME_HINT}")
            if self._heartbeat and self._heartbeat.ending:
                with self._ending:  # free, unless this rank ended first
                    self._follow(self._heartbeat.ending)
            orphaned = "lost the launcher of this rank" if self._launcher not in (None, os.getppid()) else None
            if self._heartbeat and (lost := self._heartbeat.lost_peer() or orphaned):
                self._end(2, f"error (rank {self._rank}): {lost}; {RESUME_HINT}")

    def _end(self, code: int, line: str, details: str = "") -> NoReturn:
        """Announce the ending, print the line unless another rank ended first, and end the process."""
        with self._ending:  # never released
            if not (heartbeat := self._heartbeat):
                _exit(code, line)
            own = {"rank": self._rank, "node": _node(), "code": code, "line": line}
            first = heartbeat.announce(own)
            if first == own:
                _print(details + line)
                heartbeat.wait_until_acknowledged()
                _exit(code)
            if first:
                self._follow(first)
            # Without the store the first rank of each node prints, and its launcher then ends the others.
            if self._local_rank and self._launcher_signals():
                _exit(code)
            _exit(code, details + line)

    def _follow(self, first: dict[str, Any]) -> NoReturn:
        """Exit with the first failure's code after a short delay, so torchrun reports the root cause."""
        if self._local_rank == 0 and first["node"] != _node():
            _print(f"stopped, because the job ended on {first['node']}: {first['line']}")
        self._launcher_signals()
        _exit(first["code"])

    def _launcher_signals(self) -> bool:
        """Wait a little for the launcher's signal; return whether it came."""
        return bool(select.select([self._signals], [], [], STORE_SECONDS)[0])


def watched(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Run a function of the command line within a :class:`Watchdog`."""

    @functools.wraps(function)
    def wrapper(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
        with Watchdog():
            return function(*args, **options)

    return wrapper


def _node() -> str:
    """Return a node's name for people, the same on all its ranks."""
    number = os.environ.get("GROUP_RANK")
    return socket.gethostname() if number is None else f"node {number} ({socket.gethostname()})"


def _print(text: str) -> None:
    # On a line of its own also after a progress bar, and in one write because other ranks print too. Not sys.stderr,
    # which is redirected while a model is read.
    print(f"\n{text}\n", end="", file=sys.__stderr__, flush=True)


def _exit(code: int, text: str = "") -> NoReturn:
    """End the process at once, whatever the other threads do; all finished answers are on disk."""
    try:
        if text:
            _print(text)
        sys.stdout.flush()
    finally:
        os._exit(code)
