"""A run is a folder: its manifest, append-only shards, and the merged predictions.

run.json            what the run is; resuming with anything changed is refused
shards/*.jsonl      a line per answer, flushed to disk per batch, one file per process
set_aside.jsonl     lines that could not be read, kept for people
failures.jsonl      prompts that got no answer in the last attempt, with the reason
.lock               held while a job is at work, so that two never share the folder
predictions.jsonl   all answers in the records' order, written atomically when complete
"""

__all__ = ["RunFolder", "Shard", "flat"]

import json
import os
import re
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Any
from uuid import uuid4

from filelock import FileLock, SoftFileLock, Timeout

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import describe_write_errors, write_all, write_atomically

_MISSING = "(nothing)"
_OWN_BEGINNING = re.compile(r"\.lock|\.run\.json\..*\.part")  # what a job leaves that ended before it wrote run.json


class RunFolder:
    """The folder of one run.

    Attributes:
        path: where it lies.

    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def predictions_file(self) -> Path:
        """The merged answers; exists once the run is complete."""
        return self.path / "predictions.jsonl"

    @property
    def begun(self) -> bool:
        """Whether a run has left its manifest here."""
        return (self.path / "run.json").exists()

    def open(self, manifest: Mapping[str, Any]) -> None:
        """Create the folder with this manifest, or check that an existing one has the same; and lock it.

        Raises:
            H2HTalkError: the folder can't be written, isn't a run's, another job is at work in it, or its manifest
                differs (each key is named).

        """
        self.refuse_foreign()
        self.lock()  # before the manifest: of two jobs that begin one folder, only one may say what it is
        try:
            if self.begun:
                self.refuse_changes(manifest)
            with describe_write_errors(f"the run folder {self.path}"):
                if not self.begun:
                    write_atomically(self.path / "run.json", json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
                (self.path / "shards").mkdir(exist_ok=True)
        except BaseException:
            self.unlock()
            raise

    def refuse_foreign(self) -> None:
        """Refuse a path that holds something else; so cheap that it comes before a model is loaded.

        Raises:
            H2HTalkError: the path is a file, or a folder with other things in it.

        """
        if self.begun or not self.path.exists():
            return
        if not self.path.is_dir() or any(not _OWN_BEGINNING.fullmatch(file.name) for file in self.path.iterdir()):
            raise H2HTalkError(f"{self.path} exists and is no run folder (it has no run.json); name another --out")

    def manifest(self) -> dict[str, Any]:
        """Read ``run.json``.

        Raises:
            H2HTalkError: there is none, or it is not JSON.

        """
        try:
            return json.loads((self.path / "run.json").read_text("utf-8"))
        except FileNotFoundError:
            raise H2HTalkError(f"{self.path} is no run folder: it has no run.json") from None
        except ValueError:
            raise H2HTalkError(
                f"{self.path / 'run.json'} is not readable as JSON; restore it or start a new run"
            ) from None

    def refuse_changes(self, manifest: Mapping[str, Any]) -> None:
        """Refuse a manifest that differs from this folder's.

        Raises:
            H2HTalkError: it does; each key is named.

        """
        if changed := self.changes(manifest):
            raise H2HTalkError(
                f"{self.path} holds another run; go back to its settings, name another --out, or move it away. "
                f"Different: {changed}"
            )

    def changes(self, manifest: Mapping[str, Any]) -> str:
        """How a manifest differs from this folder's, ``key: before -> now`` for each key; empty where it doesn't."""
        before, now = dict(flat(self.manifest())), dict(flat(json.loads(json.dumps(manifest))))
        return "; ".join(
            f"{key}: {before.get(key, _MISSING)} -> {now.get(key, _MISSING)}"
            for key in sorted(before.keys() | now.keys())
            if before.get(key, _MISSING) != now.get(key, _MISSING)
        )

    def answers(self, known: Iterable[str]) -> tuple[dict[str, dict[str, Any]], list[str]]:
        """Read all shards.

        Args:
            known: the ids of the run's records.

        Returns:
            Prediction lines by id, and a note for each line that could not be used.

        """
        ids = set(known)
        found: dict[str, dict[str, Any]] = {}
        notes = []
        for shard in sorted((self.path / "shards").glob("*.jsonl")):
            for number, line in enumerate(shard.read_bytes().split(b"\n"), 1):
                if not line.strip():
                    continue
                answer = _read_line(line, ids)
                if answer is None:
                    notes.append(f"{shard.name}, line {number}: not a prediction of this run")
                else:
                    # Two lines for one record come from a batch done twice; they are equal, the first stays.
                    found.setdefault(answer["id"], answer)
        return found, notes

    def lock(self) -> None:
        """Keep other jobs out of the folder until this process ends, however it ends.

        Raises:
            H2HTalkError: another job is at work in it.

        """
        self._lock = FileLock(self.path / ".lock")
        with describe_write_errors(f"the run folder {self.path}"):
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                self._lock.acquire(timeout=0)
            except Timeout:
                # Without flock (on some Lustre disks) the lock is a file, which a killed job on another node leaves.
                left = f", or delete {self._lock.lock_file} if its job has ended"
                raise H2HTalkError(
                    f"another job is at work in {self.path}; wait for it, or name another --out"
                    + (left if isinstance(self._lock, SoftFileLock) else "")
                ) from None

    def unlock(self) -> None:
        """Let other jobs in."""
        self._lock.release()

    def mark(self) -> str:
        """Leave a mark of a new name, by which another node sees whether it has this folder or one of its own."""
        name = f".{uuid4().hex}.mark"
        with describe_write_errors(f"the run folder {self.path}"):
            (self.path / name).touch()
        return name

    def sees(self, mark: str) -> bool:
        """Whether the mark was left in this folder."""
        return (self.path / mark).exists()

    def unmark(self) -> None:
        """Remove the mark, and any that a killed job has left."""
        for mark in self.path.glob(".*.mark"):
            mark.unlink(missing_ok=True)

    def set_damage_aside(self, known: Iterable[str]) -> None:
        """Move unreadable lines out of the shards into ``set_aside.jsonl``; for one process, before a run starts."""
        ids = set(known)
        for shard in sorted((self.path / "shards").glob("*.jsonl")):
            lines = [line for line in shard.read_bytes().split(b"\n") if line.strip()]
            bad = [line for line in lines if _read_line(line, ids) is None]
            if bad:
                good = [line + b"\n" for line in lines if line not in bad]
                with describe_write_errors(f"the run folder {self.path}"):
                    with (self.path / "set_aside.jsonl").open("ab") as aside:
                        aside.writelines(line + b"\n" for line in bad)
                    write_atomically(shard, b"".join(good))

    def shard(self, rank: int) -> "Shard":
        """A new shard for this process; nobody else ever writes to it."""
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{socket.gethostname()}-{os.getpid()}-rank{rank}.jsonl"
        return Shard(self.path / "shards" / name)

    def note_failures(self, failures: Sequence[Mapping[str, Any]]) -> None:
        """Write ``failures.jsonl``, a line per prompt that got no answer in the last attempt; none, no file."""
        file = self.path / "failures.jsonl"
        with describe_write_errors(f"the run folder {self.path}"):
            if failures:
                write_atomically(file, "".join(map(_line, failures)))
            else:
                file.unlink(missing_ok=True)

    def take_in(self, other: "RunFolder") -> int:
        """Copy another folder's shards of the same run into this one; taking them in again changes nothing.

        Args:
            other: for instance of another node's disk.

        Returns:
            How many shards were copied.

        Raises:
            H2HTalkError: the other folder holds another run, or this one can't be written.

        """
        other.refuse_changes(self.manifest())
        copied = 0
        for shard in sorted((other.path / "shards").glob("*.jsonl")):
            own = self.path / "shards" / shard.name
            # Shards only grow, so of two with one name the longer has all.
            if not own.exists() or own.stat().st_size < shard.stat().st_size:
                with describe_write_errors(own):
                    write_atomically(own, shard.read_bytes())
                copied += 1
        return copied

    def merge(self, order: Sequence[str]) -> list[str]:
        """Write ``predictions.jsonl`` in the given order if every answer is there; return the ids still missing."""
        found, _ = self.answers(order)
        missing = [identity for identity in order if identity not in found]
        if not missing:
            with describe_write_errors(f"the run folder {self.path}"):
                write_atomically(self.predictions_file, "".join(_line(found[identity]) for identity in order))
        return missing


class Shard:
    """An append-only file of one process; a batch is on disk when :meth:`append` returns."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._handle: FileIO | None = None

    def append(self, answers: Sequence[Mapping[str, Any]]) -> None:
        """Write a batch's answers and flush them to the disk.

        Raises:
            H2HTalkError: the disk is full or gone; no part of the batch is left in the file.

        """
        if not answers:
            return
        batch = "".join(_line(answer) for answer in answers).encode()
        with describe_write_errors(self._file):
            if self._handle is None:
                self._handle = self._file.open("ab", buffering=0)
            before = self._handle.tell()
            try:
                write_all(self._handle, batch)
            except OSError:
                self._handle.truncate(before)
                raise
            self._file.stat()  # the file may be open still, but deleted: then it is written to nowhere

    def close(self) -> None:
        """Close the file, if it was ever opened."""
        if self._handle is not None:
            self._handle.close()


def _line(answer: Mapping[str, Any]) -> str:
    return json.dumps(answer, ensure_ascii=False) + "\n"


def _read_line(line: bytes, ids: set[str]) -> dict[str, Any] | None:
    try:
        answer = json.loads(line)
    except ValueError:
        return None
    whole = isinstance(answer, dict) and answer.get("id") in ids and isinstance(answer.get("prediction"), str)
    return answer if whole else None


def flat(tree: Mapping[str, Any], above: str = "") -> Iterable[tuple[str, Any]]:
    """The leaves of a tree, each with its keys joined by dots."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
