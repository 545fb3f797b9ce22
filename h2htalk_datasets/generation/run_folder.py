"""A run is a folder: its manifest, append-only shards, and the merged predictions.

run.json            what the run is; resuming with anything changed is refused
shards/*.jsonl      a line per answer, flushed to disk per batch, one file per process
set_aside.jsonl     lines that could not be read, kept for people
.lock               held while a job is at work, so that two never share the folder
predictions.jsonl   all answers in the records' order, written atomically when complete
"""

__all__ = ["RunFolder", "Shard"]

import json
import os
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from filelock import FileLock, Timeout

from h2htalk_datasets.errors import H2HTalkError

_MISSING = "(nothing)"


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

    def open(self, manifest: Mapping[str, Any]) -> None:
        """Create the folder with this manifest, or check that an existing one has the same.

        Raises:
            H2HTalkError: the folder can't be written, isn't a run's, or its manifest differs (each key is named).

        """
        file = self.path / "run.json"
        if file.exists():
            self._refuse_changes(self.manifest(), manifest)
            return
        self.refuse_foreign()
        try:
            (self.path / "shards").mkdir(parents=True, exist_ok=True)
            write_atomically(file, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
        except OSError as error:
            raise H2HTalkError(f"can't write the run folder {self.path}: {error.strerror}") from None

    def refuse_foreign(self) -> None:
        """Refuse a path that holds something else; so cheap that it comes before a model is loaded.

        Raises:
            H2HTalkError: the path is a file, or a folder with other things in it.

        """
        if (self.path / "run.json").exists() or not self.path.exists():
            return
        if not self.path.is_dir() or any(self.path.iterdir()):
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
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise H2HTalkError(f"another job is at work in {self.path}; wait for it, or name another --out") from None

    def unlock(self) -> None:
        """Let other jobs in."""
        self._lock.release()

    def set_damage_aside(self, known: Iterable[str]) -> None:
        """Move unreadable lines out of the shards into ``set_aside.jsonl``; for one process, before a run starts."""
        ids = set(known)
        for shard in sorted((self.path / "shards").glob("*.jsonl")):
            lines = [line for line in shard.read_bytes().split(b"\n") if line.strip()]
            bad = [line for line in lines if _read_line(line, ids) is None]
            if bad:
                with (self.path / "set_aside.jsonl").open("ab") as aside:
                    aside.writelines(line + b"\n" for line in bad)
                good = [line + b"\n" for line in lines if line not in bad]
                write_atomically(shard, b"".join(good))

    def shard(self, rank: int) -> "Shard":
        """A new shard for this process; nobody else ever writes to it."""
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{socket.gethostname()}-{os.getpid()}-rank{rank}.jsonl"
        return Shard(self.path / "shards" / name)

    def merge(self, order: Sequence[str]) -> list[str]:
        """Write ``predictions.jsonl`` in the given order if every answer is there; return the ids still missing."""
        found, _ = self.answers(order)
        missing = [identity for identity in order if identity not in found]
        if not missing:
            write_atomically(self.predictions_file, "".join(_line(found[identity]) for identity in order))
        return missing

    def _refuse_changes(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        before, now = dict(_flat(old)), dict(_flat(json.loads(json.dumps(new))))
        changed = [
            f"{key}: {before.get(key, _MISSING)} -> {now.get(key, _MISSING)}"
            for key in sorted(before.keys() | now.keys())
            if before.get(key, _MISSING) != now.get(key, _MISSING)
        ]
        if changed:
            raise H2HTalkError(
                f"{self.path} holds another run; name another --out, or go back to its settings. "
                f"Different: {'; '.join(changed)}"
            )


class Shard:
    """An append-only file of one process; a batch is on disk when :meth:`append` returns."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._handle: TextIO | None = None

    def append(self, answers: Sequence[Mapping[str, Any]]) -> None:
        """Write a batch's answers and flush them to the disk."""
        if self._handle is None:
            self._handle = self._file.open("a", encoding="utf-8")
        self._handle.write("".join(_line(answer) for answer in answers))
        self._handle.flush()
        os.fsync(self._handle.fileno())

    def close(self) -> None:
        """Close the file, if it was ever opened."""
        if self._handle is not None:
            self._handle.close()


def write_atomically(file: Path, content: str | bytes) -> None:
    """Write a file so that readers see the old one or the new one, never a part."""
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    with part.open("wb") as handle:
        handle.write(content.encode() if isinstance(content, str) else content)
        handle.flush()
        os.fsync(handle.fileno())
    part.replace(file)


def _line(answer: Mapping[str, Any]) -> str:
    return json.dumps(answer, ensure_ascii=False) + "\n"


def _read_line(line: bytes, ids: set[str]) -> dict[str, Any] | None:
    try:
        answer = json.loads(line)
    except ValueError:
        return None
    whole = isinstance(answer, dict) and answer.get("id") in ids and isinstance(answer.get("prediction"), str)
    return answer if whole else None


def _flat(tree: Mapping[str, Any], above: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
