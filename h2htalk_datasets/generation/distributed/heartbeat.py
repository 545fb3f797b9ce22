"""The heartbeat of a rank: it shows the other ranks that this one is alive, and notices when one is not."""

__all__ = ["RANKS_READY", "Heartbeat"]

import json
import os
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from datetime import timedelta
from typing import Any

BEAT_SECONDS = 0.5  # between two beats
# Without a sign of life for so long, a rank or the store is lost: a busy file system can block a process for a while.
# A scheduler that suspends the whole job suspends the counting too.
SILENT_BEATS = int(float(os.environ.get("H2HTALK_SILENT_SECONDS", "60")) / BEAT_SECONDS)
LOADING_BEATS = max(240, SILENT_BEATS)  # before all ranks are ready: loading a library or a GPU can block a process
STARTING_BEATS = 1200  # the same before a rank's first beat: its node may start late or read from a slow disk
STORE_SECONDS = 3.0  # that the store has for an answer

RANKS_READY = threading.Event()
"""Set once every rank has loaded what it needs; from then on a silent rank is lost after SILENT_BEATS."""


class Heartbeat(threading.Thread):
    """Exchanges signs of life with the other ranks. A thread, because a call to a lost store may never return.

    Each rank counts its beats in the launcher's store and watches the beats of the rank before it.

    Args:
        rank: of this process.
        world_size: number of ranks.
        ranks_ready: set once every rank has loaded what it needs.

    Attributes:
        ending: what the first rank to end announced (rank, node, code, line); None while the job runs.

    """

    def __init__(self, rank: int, world_size: int, ranks_ready: threading.Event = RANKS_READY) -> None:
        super().__init__(name="h2htalk-heartbeat", daemon=True)
        self.ending: dict[str, Any] | None = None
        self._rank, self._world_size, self._ranks_ready = rank, world_size, ranks_ready
        self._peer = (rank - 1) % world_size  # whose beats this rank watches
        self._requests: queue.SimpleQueue[tuple[Callable[[Any], Any], Future[Any]]] = queue.SimpleQueue()
        self._connected = self._broken = self._acknowledged = self._leaving = self._left = self._peer_left = False
        self._checks_without_store = 0
        self._peer_beats = self._peer_missed = 0  # beats of the rank before this one, and checks without a new one

    def lost_peer(self) -> str | None:
        """Return which rank or node is lost, or None. Call it once per beat."""
        if self._leaving:
            return None
        self._checks_without_store += self._connected
        limit = SILENT_BEATS if self._ranks_ready.is_set() else LOADING_BEATS
        if self._broken or self._checks_without_store > limit:
            return f"lost the job's first node ({os.environ.get('MASTER_ADDR')}): it has ended, or the network is down"
        if self._peer_left:
            return None
        peer = f"lost rank {self._peer}"
        if not self._peer_beats and self._peer_missed > STARTING_BEATS:
            seconds = STARTING_BEATS * BEAT_SECONDS
            return f"{peer}: it has not started within {seconds:.0f} s, see the log of its node"
        if self._peer_beats and self._peer_missed > limit:
            seconds = limit * BEAT_SECONDS
            return f"{peer}: silent for {seconds:.0f} s, its process or node has ended, or the network is down"
        return None

    def announce(self, ending: dict[str, Any]) -> dict[str, Any] | None:
        """Return the ending that was announced first, this one or another rank's; None if the store does not answer."""
        if not self.ending:
            first = self._request(lambda store: store.compare_set("ending", "", json.dumps(ending)))
            self.ending = json.loads(first) if first else None
        return self.ending

    def wait_until_acknowledged(self) -> None:
        """Wait until every rank has read the ending, for STORE_SECONDS at most."""
        self._wait_for_all("acknowledged", STORE_SECONDS)

    def leave(self) -> None:
        """Stop. Rank 0 waits for the others, because the store may live in its process."""
        self._leaving = True  # from here on no rank counts as lost
        if self._rank == 0:
            self._request(lambda store: store.add("left", 1))
            self._wait_for_all("left", 3 * STORE_SECONDS)
        self._request(self._sign_off)
        self.join(STORE_SECONDS)

    def run(self) -> None:
        """Beat, and answer requests to the store, until the job is left."""
        try:
            store = _connect()
            while not self._left:
                self.beat(store)
                self._answer_request(store)
        except RuntimeError:  # all errors of the store are
            self._broken = True

    def beat(self, store: Any) -> None:
        """Count one beat, read those of the rank before this one, and read whether the job ends."""
        store.add(f"beat/{self._rank}", 1)
        beats = store.add(f"beat/{self._peer}", 0)
        self._connected, self._checks_without_store = True, 0
        self._peer_missed = self._peer_missed + 1 if beats == self._peer_beats else 0
        self._peer_beats = beats
        if self._peer_missed and store.check([f"left/{self._peer}"]):
            self._peer_left = True  # it has finished and beats no more
        if not self.ending and store.check(["ending"]):
            self.ending = json.loads(store.get("ending"))
        if self.ending and not self._acknowledged:
            self._acknowledged = store.add("acknowledged", 1) > 0

    def _answer_request(self, store: Any) -> None:
        try:
            request, result = self._requests.get(timeout=BEAT_SECONDS)
        except queue.Empty:
            return
        result.set_result(request(store))

    def _sign_off(self, store: Any) -> None:
        store.add(f"left/{self._rank}", 1)
        store.add("left", 1)
        self._left = True  # set in this thread, so that it sends nothing more to a store that may end now

    def _request(self, request: Callable[[Any], Any]) -> Any:
        """Return what the store answers; None if it does not."""
        if self._broken:
            return None
        result: Future[Any] = Future()
        self._requests.put((request, result))
        try:
            return result.result(STORE_SECONDS)
        except FutureTimeout:
            return None

    def _wait_for_all(self, key: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            count = self._request(lambda store: store.add(key, 0))
            if count is None or count >= self._world_size:
                return
            time.sleep(0.05)


def _connect() -> Any:
    """Open a connection to the launcher's store for this thread only, because a call holds it until the answer."""
    from torch.distributed import PrefixStore, TCPStore

    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = TCPStore(address, port, is_master=False, wait_for_workers=False, timeout=timedelta(minutes=10))
    return PrefixStore(f"h2htalk/watchdog/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
