"""Leases: how independent jobs of one run divide its units of work through files of the run folder.

The jobs need no network and do not start or end together. A job creates one file per unit that it claims, which only
one job can do, and touches its own heartbeat file. The units of a job without a heartbeat can be claimed again.
"""

__all__ = ["LEASE_SECONDS", "Leases", "remove_leases", "working_jobs"]

import os
import shutil
import socket
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from uuid import uuid4

from h2htalk_datasets.files import describe_write_errors

LEASE_SECONDS = float(os.environ.get("H2HTALK_LEASE_SECONDS", "120"))
"""Without a heartbeat for so long, a job counts as ended; a file server may show changes a minute late."""

_BEATS_PER_LEASE = 8
_FOLDER = "leases"
_HEARTBEAT = ".heartbeat"


class Leases:
    """The claims of one job; enter it for as long as the job works.

    Args:
        run_folder: exists, and is the same for all jobs of the run.
        seconds: after which a silent job has lost its units.

    Attributes:
        name: of this job, different from all others.
        heartbeat: the file that it touches.

    """

    def __init__(self, run_folder: Path, seconds: float = LEASE_SECONDS) -> None:
        self.name = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        self._folder, self._seconds = run_folder / _FOLDER, seconds
        self.heartbeat = self._folder / f"{self.name}{_HEARTBEAT}"
        self._ended = threading.Event()
        self._beating = threading.Thread(target=self._beat, name="h2htalk-lease", daemon=True)

    def __enter__(self) -> "Leases":
        with describe_write_errors(self._folder):
            self._folder.mkdir(exist_ok=True)
            self.heartbeat.touch()
        self._beating.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._beating.join()
        with suppress(OSError):  # the job that merged the run has removed the folder
            self.heartbeat.unlink()

    def claim(self, unit: int) -> bool:
        """Claim a unit, unless this job has claimed it before or another working job has it.

        Args:
            unit: its number in the plan, which all jobs share.

        Returns:
            Whether this job has to answer the unit now.

        """
        with describe_write_errors(self._folder):
            try:
                return self._claim(unit)
            except FileNotFoundError:  # the run is complete: another job has merged it and removed the folder
                return False

    def _claim(self, unit: int) -> bool:
        for attempt in count():
            file = self._folder / f"unit-{unit:05}-{attempt}"
            try:
                with file.open("x") as handle:
                    handle.write(self.name)
                return True
            except FileExistsError:
                owner = file.read_text()
            # A job that ended between creating and writing the file left it empty.
            sign_of_life = self._folder / f"{owner}{_HEARTBEAT}" if owner else file
            if owner == self.name or _is_recent(sign_of_life, self.heartbeat, self._seconds):
                return False
        raise AssertionError("unreachable")

    def _beat(self) -> None:
        while not self._ended.wait(self._seconds / _BEATS_PER_LEASE):
            with suppress(OSError):  # a file server may be away for a while
                self.heartbeat.touch()


def working_jobs(run_folder: Path, now: Path, seconds: float = LEASE_SECONDS) -> int:
    """Return how many jobs have a heartbeat in a run folder.

    Args:
        run_folder: of the run.
        now: a file on the same disk that has just been written, because only times of one clock can be compared.
        seconds: after which a silent job counts as ended.

    """
    return sum(_is_recent(file, now, seconds) for file in (run_folder / _FOLDER).glob(f"*{_HEARTBEAT}"))


def remove_leases(run_folder: Path) -> None:
    """Remove all claims, once the run is complete."""
    shutil.rmtree(run_folder / _FOLDER, ignore_errors=True)


def _is_recent(file: Path, now: Path, seconds: float) -> bool:
    try:
        return now.stat().st_mtime - file.stat().st_mtime <= seconds
    except FileNotFoundError:
        return False
