"""How a job of one or many processes ends early: by an error, by a signal, or because a node is gone.

Whatever the main thread is in (a batch, a gather, the loading of a model), two other threads stay awake. One hears
signals. The other keeps the ranks in touch through a connection of its own to the launcher's store: it tells the first
ending to all, beats, and notices when the rank before its own beats no more. So no rank waits for ever for one that
will never come, on one node or on many.
"""

__all__ = ["GOES_ON", "Watch", "ranks_have_met", "watched"]

import functools
import json
import os
import queue
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoResult
from datetime import timedelta
from types import TracebackType
from typing import Any, NoReturn, ParamSpec, TypeVar

from rich.console import Console

from h2htalk_datasets.errors import H2HTalkError, path_fault

GOES_ON = "finished batches are on disk, and the same command goes on from there"
_BEAT = 0.5  # seconds between two looks at the store
_SILENT_BEATS = 30  # looks without a sign, after which a rank or the store counts as gone; while a scheduler
# suspends the whole job nobody looks, so nobody is missed
_LOADING_BEATS = 240  # the same before the ranks have met: loading a library or waking a GPU may hold a whole process
_STARTING_BEATS = 1200  # the same before a rank's first beat: its node may start late, or read from a slow disk
_PATIENCE = 3.0  # seconds that an ending waits for the other ranks to hear of it
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


_met = threading.Event()


def ranks_have_met() -> None:
    """Say that every rank has loaded what it needs and is at work; from now on none has a reason to be silent."""
    _met.set()


class Watch:
    """Ends the process, and with it all ranks of the job, as soon as one of them can't go on.

    The main thread of each process enters it as early as it can. In a single process errors pass through as ever and
    only signals are heard. Exit codes: 2 for an :class:`H2HTalkError`, a path that can't be used or a lost rank, 1 for
    any other error, 143 for SIGTERM and 130 for SIGINT. The rank that ends first speaks and the others are silent, but
    on each other node one rank says which node ended the job, and why.
    """

    def __init__(self) -> None:
        self._rank, self._local_rank = (int(os.environ.get(name, "0")) for name in ("RANK", "LOCAL_RANK"))
        self._pulse = _Pulse(self._rank) if int(os.environ.get("WORLD_SIZE", "1")) > 1 else None
        self._launcher = os.getppid() if "TORCHELASTIC_RUN_ID" in os.environ else None
        self._ending = threading.Lock()
        self._left = threading.Event()

    def __enter__(self) -> "Watch":
        self._ears, self._bell = socket.socketpair()
        self._bell.setblocking(False)
        # The bell rings when a signal comes, also while the main thread is in foreign code and runs no handler.
        self._handlers = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
        self._other_bell = signal.set_wakeup_fd(self._bell.fileno(), warn_on_full_buffer=False)
        if self._pulse:
            self._pulse.start()
        threading.Thread(target=self._listen, name="h2htalk-watch", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        known = str(error) if isinstance(error, H2HTalkError) else None
        if isinstance(error, OSError):
            known = path_fault(error)
        if self._pulse and known is not None:
            self._end(2, f"error (rank {self._rank}): {known}")
        if self._pulse and isinstance(error, Exception):
            details = "".join(traceback.format_exception(error))
            self._end(1, f"error (rank {self._rank}): {type(error).__name__}: {error}", details)
        if self._pulse:
            self._pulse.leave()
        self._left.set()
        signal.set_wakeup_fd(self._other_bell)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _listen(self) -> None:
        while not self._left.is_set():
            if select.select([self._ears], [], [], _BEAT)[0]:
                number = self._ears.recv(1)[0]
                if number in _SIGNALS:
                    self._end(128 + number, f"stopped by {signal.Signals(number).name}; {GOES_ON}")
            if self._pulse and self._pulse.ending:
                with self._ending:  # free, unless this rank ended first
                    self._follow(self._pulse.ending)
            orphaned = "lost the launcher of this rank" if self._launcher not in (None, os.getppid()) else None
            if self._pulse and (lost := self._pulse.look() or orphaned):
                self._end(2, f"error (rank {self._rank}): {lost}; {GOES_ON}")

    def _end(self, code: int, line: str, details: str = "") -> NoReturn:
        """Make the ending known, say the line unless another rank ended first, and end the process."""
        with self._ending:  # never given back
            if not (pulse := self._pulse):
                _exit(code, line)
            mine = {"rank": self._rank, "node": _node(), "code": code, "line": line}
            first = pulse.announce(mine)
            if first == mine:
                _say(details + line)
                pulse.wait_for_ears()
                _exit(code)
            if first:
                self._follow(first)
            # The store is out of reach: the node's first rank speaks, and the launcher then ends the others.
            if self._local_rank and self._told_to_go():
                _exit(code)
            _exit(code, details + line)

    def _follow(self, first: dict[str, Any]) -> NoReturn:
        """End as another rank did, a little after it, so that the launcher names the right one."""
        if self._local_rank == 0 and first["node"] != _node():
            _say(f"stopped, because the job ended on {first['node']}: {first['line']}")
        self._told_to_go()
        _exit(first["code"])

    def _told_to_go(self) -> bool:
        """Give the launcher time to send its signal."""
        return bool(select.select([self._ears], [], [], _PATIENCE)[0])


def watched(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Let a function of the command line run within a :class:`Watch`."""

    @functools.wraps(function)
    def within(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
        with Watch():
            return function(*args, **options)

    return within


class _Pulse(threading.Thread):
    """Keeps a rank in touch with the others; a thread, since a call to a store that is gone may never return.

    Attributes:
        ending: what the first rank to end announced (rank, node, code, line); None while all is well.

    """

    def __init__(self, rank: int) -> None:
        super().__init__(name="h2htalk-pulse", daemon=True)
        self.ending: dict[str, Any] | None = None
        self._rank, self._world = rank, int(os.environ["WORLD_SIZE"])
        self._errands: queue.SimpleQueue[tuple[Callable[[Any], Any], Future[Any]]] = queue.SimpleQueue()
        self._reached = self._broken = self._counted = self._leaving = self._left = False
        self._quiet = 0  # looks since the store last answered
        self._beats = self._missed = 0  # of the rank before this one: its beats, and looks without a new one

    def look(self) -> str | None:
        """Whom this rank has lost, or None; to be asked once a beat."""
        if self._leaving:
            return None
        self._quiet += self._reached
        most = _SILENT_BEATS if _met.is_set() else _LOADING_BEATS
        if self._broken or self._quiet > most:
            return f"lost the job's first node ({os.environ.get('MASTER_ADDR')}): it has ended, or the network is down"
        who = f"lost rank {(self._rank - 1) % self._world}"
        if not self._beats and self._missed > _STARTING_BEATS:
            return f"{who}: it has not begun for {_STARTING_BEATS * _BEAT:.0f} s, see what its node says"
        if self._beats and self._missed > most:
            return f"{who}: silent for {most * _BEAT:.0f} s, its process or node has ended, or the network is down"
        return None

    def announce(self, ending: dict[str, Any]) -> dict[str, Any] | None:
        """Return the ending that was announced first, this one or another's; None if the store does not answer."""
        if not self.ending:
            first = self._ask(lambda store: store.compare_set("ending", "", json.dumps(ending)))
            self.ending = json.loads(first) if first else None
        return self.ending

    def wait_for_ears(self) -> None:
        """Wait until every rank has heard of the ending, but not long."""
        self._wait_for_all("ears", _PATIENCE)

    def leave(self) -> None:
        """Stop; rank 0 waits until the others have, since the store may be its own."""
        self._leaving = True  # from here on nobody is missed
        if self._rank == 0:
            self._ask(lambda store: store.add("left", 1))
            self._wait_for_all("left", 3 * _PATIENCE)
        self._ask(self._sign_off)
        self.join(_PATIENCE)

    def run(self) -> None:
        """Beat and listen until the job is left."""
        try:
            store = _connected()
            while not self._left:
                self._beat(store)
                self._run_errand(store)
        except RuntimeError:  # of which all errors of the store are
            self._broken = True

    def _beat(self, store: Any) -> None:
        store.add(f"beat/{self._rank}", 1)
        beats = store.add(f"beat/{(self._rank - 1) % self._world}", 0)
        self._reached, self._quiet = True, 0
        self._missed = self._missed + 1 if beats == self._beats else 0
        self._beats = beats
        if not self.ending and store.check(["ending"]):
            self.ending = json.loads(store.get("ending"))
        if self.ending and not self._counted:
            self._counted = store.add("ears", 1) > 0

    def _run_errand(self, store: Any) -> None:
        try:
            errand, result = self._errands.get(timeout=_BEAT)
        except queue.Empty:
            return
        result.set_result(errand(store))

    def _sign_off(self, store: Any) -> None:
        store.add("left", 1)
        self._left = True  # this thread's own doing, so that it asks nothing more of a store that may end now

    def _ask(self, errand: Callable[[Any], Any]) -> Any:
        """What the store answers; None if it doesn't."""
        if self._broken:
            return None
        result: Future[Any] = Future()
        self._errands.put((errand, result))
        try:
            return result.result(_PATIENCE)
        except NoResult:
            return None

    def _wait_for_all(self, key: str, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            count = self._ask(lambda store: store.add(key, 0))
            if count is None or count >= self._world:
                return
            time.sleep(0.05)


def _connected() -> Any:
    """A connection to the launcher's store that no other thread uses, since each call holds it until the answer."""
    from torch.distributed import PrefixStore, TCPStore

    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = TCPStore(address, port, is_master=False, wait_for_workers=False, timeout=timedelta(minutes=10))
    return PrefixStore(f"h2htalk/watch/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def _node() -> str:
    """A node's name for people, the same on all its ranks."""
    number = os.environ.get("GROUP_RANK")
    return socket.gethostname() if number is None else f"node {number} ({socket.gethostname()})"


def _say(text: str) -> None:
    Console(stderr=True).show_cursor()  # a progress bar may have hidden it
    # One write, since other ranks speak too; and sys.stderr may be redirected, while a model is read.
    print(f"{text}\n", end="", file=sys.__stderr__, flush=True)


def _exit(code: int, text: str = "") -> NoReturn:
    """End at once, whatever the other threads hold; what counts is on disk."""
    try:
        if text:
            _say(text)
        sys.stdout.flush()
    finally:
        os._exit(code)
