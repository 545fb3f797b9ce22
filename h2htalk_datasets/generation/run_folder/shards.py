"""Shards: append-only files of answers, one per process."""

__all__ = ["Shard", "copy_shards", "new_shard", "read_shards", "set_aside_damage"]

import json
import os
import socket
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Any

from h2htalk_datasets.files import describe_write_errors, write_all, write_atomically

SYNC_SECONDS = 0.5


class Shard:
    """An append-only file that only one process writes to.

    What is written survives the end of the process at once, and the end of the machine after SYNC_SECONDS: on a GPU
    answers come faster than a disk can confirm each.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._handle: FileIO | None = None
        self._sync_error: OSError | None = None
        self._closed = threading.Event()
        self._syncing = threading.Thread(target=self._sync_regularly, name="h2htalk-sync", daemon=True)

    def append(self, answers: Sequence[Mapping[str, Any]]) -> None:
        """Write answers; they are in the file when this returns, and on disk SYNC_SECONDS later.

        Args:
            answers: prediction lines; nothing happens if there are none.

        Raises:
            H2HTalkError: the disk is full or gone; no part of these answers remains in the file.

        """
        if not answers:
            return
        lines = "".join(json.dumps(answer, ensure_ascii=False) + "\n" for answer in answers).encode()
        with describe_write_errors(self._file):
            if self._handle is None:
                self._handle = self._file.open("ab", buffering=0)
                self._syncing.start()
            size = self._handle.tell()
            try:
                write_all(self._handle, lines)
            except OSError:
                self._handle.truncate(size)
                raise
            self._file.stat()  # an open file may have been deleted, and then the answers are nowhere
            self._check_synced()

    def close(self) -> None:
        """Close the file, if it was opened; all answers are on disk when this returns.

        Raises:
            H2HTalkError: the disk is full or gone.

        """
        if self._handle is not None:
            self._closed.set()
            self._syncing.join()
            self._handle.close()
            with describe_write_errors(self._file):
                self._check_synced()

    def _sync_regularly(self) -> None:
        closed = False
        while not closed and self._sync_error is None:
            closed = self._closed.wait(SYNC_SECONDS)
            try:
                os.fsync(self._handle.fileno())  # type: ignore[union-attr]
            except OSError as error:  # some disks say only now that they are full
                self._sync_error = error

    def _check_synced(self) -> None:
        if self._sync_error is not None:
            raise self._sync_error


def new_shard(folder: Path, rank: int) -> Shard:
    """Return a new shard of this process."""
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{socket.gethostname()}-{os.getpid()}-rank{rank}.jsonl"
    return Shard(folder / name)


def read_shards(folder: Path, ids: Collection[str]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return prediction lines by id, and a note for each line that is not a prediction of these records."""
    answers: dict[str, dict[str, Any]] = {}
    notes = []
    for file in _files(folder):
        for number, line in enumerate(file.read_bytes().split(b"\n"), 1):
            if not line.strip():
                continue
            answer = _prediction(line, ids)
            if answer is None:
                notes.append(f"{file.name}, line {number}: not a prediction of this run")
            else:
                # A prompt that was answered twice gives two equal lines.
                answers.setdefault(answer["id"], answer)
    return answers, notes


def set_aside_damage(folder: Path, ids: Collection[str], target: Path) -> None:
    """Move lines that are not predictions of these records from the shards to the end of a file."""
    for file in _files(folder):
        lines = [line for line in file.read_bytes().split(b"\n") if line.strip()]
        damaged = [line for line in lines if _prediction(line, ids) is None]
        if damaged:
            valid = [line + b"\n" for line in lines if line not in damaged]
            with target.open("ab") as aside:
                aside.writelines(line + b"\n" for line in damaged)
            write_atomically(file, b"".join(valid))


def copy_shards(source: Path, target: Path) -> int:
    """Copy shards that the target lacks or has in a shorter version; return their number."""
    copied = 0
    for file in _files(source):
        own = target / file.name
        # Shards only grow, so the longer one of two with the same name is complete.
        if not own.exists() or own.stat().st_size < file.stat().st_size:
            write_atomically(own, file.read_bytes())
            copied += 1
    return copied


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def _prediction(line: bytes, ids: Collection[str]) -> dict[str, Any] | None:
    try:
        answer = json.loads(line)
    except ValueError:
        return None
    valid = isinstance(answer, dict) and answer.get("id") in ids and isinstance(answer.get("prediction"), str)
    return answer if valid else None
