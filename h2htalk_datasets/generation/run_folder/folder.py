"""The folder of one run, for the job that writes it and for everything that reads it."""

__all__ = ["RunFolder"]

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import describe_write_errors, write_atomically
from h2htalk_datasets.generation.run_folder.leases import working_jobs
from h2htalk_datasets.generation.run_folder.lock import acquire_lock
from h2htalk_datasets.generation.run_folder.manifest import differences, read_manifest
from h2htalk_datasets.generation.run_folder.shards import Shard, copy_shards, new_shard, read_shards, set_aside_damage

_BEFORE_MANIFEST = re.compile(r"\.lock|\.run\.json\..*\.part")  # left by a job that ended before it wrote run.json

_OPENING_SECONDS = 60  # that a job waits for others which open the same folder


class RunFolder:
    """The folder of one run.

    Args:
        path: of the folder; it does not have to exist.

    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._shards = self.path / "shards"

    @property
    def predictions_file(self) -> Path:
        """The merged answers; the file exists once the run is complete."""
        return self.path / "predictions.jsonl"

    @property
    def exists(self) -> bool:
        """Whether a run has written its manifest here."""
        return (self.path / "run.json").exists()

    def open(self, manifest: Mapping[str, Any], shared: bool = False) -> None:
        """Create the folder with this manifest, or check that an existing one has the same; and lock it.

        Args:
            manifest: of the run.
            shared: several independent jobs open the folder; each locks it only for a moment.

        Raises:
            H2HTalkError: the folder cannot be written, belongs to something else, another job works in it, or its
                manifest differs (each key is named).

        """
        self.check_path()
        # Before the manifest: of two jobs that start in one folder, only one may write it.
        self.lock(_OPENING_SECONDS if shared else 0)
        try:
            if self.exists:
                self.check_unchanged(manifest)
            with self._describe_write_errors():
                if not self.exists:
                    write_atomically(self.path / "run.json", json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
                self._shards.mkdir(exist_ok=True)
            if not shared:
                self._check_no_independent_jobs()
        except BaseException:
            self.unlock()
            raise

    def check_path(self) -> None:
        """Check that the path is free or a run folder. It is fast, so do it before a model is loaded.

        Raises:
            H2HTalkError: the path is a file, or a folder with other content.

        """
        if self.exists or not self.path.exists():
            return
        if not self.path.is_dir() or any(not _BEFORE_MANIFEST.fullmatch(file.name) for file in self.path.iterdir()):
            raise H2HTalkError(f"{self.path} is not a run folder (it has no run.json); choose another --out")

    def manifest(self) -> dict[str, Any]:
        """Return the content of ``run.json``.

        Raises:
            H2HTalkError: there is none, or it is not JSON.

        """
        return read_manifest(self.path)

    def check_unchanged(self, manifest: Mapping[str, Any]) -> None:
        """Check that a manifest is this folder's.

        Raises:
            H2HTalkError: it differs; each key is named.

        """
        if changes := self.differences(manifest):
            raise H2HTalkError(
                f"cannot resume {self.path}: settings differ from run.json. Restore them or choose another --out. "
                f"Differences: {changes}"
            )

    def differences(self, manifest: Mapping[str, Any]) -> str:
        """Return ``key: this folder's -> the other's`` for each key of a manifest that differs, in one line."""
        return differences(self.manifest(), manifest)

    def answers(self, ids: Iterable[str]) -> tuple[dict[str, dict[str, Any]], list[str]]:
        """Read all shards.

        Args:
            ids: of the run's records.

        Returns:
            Prediction lines by id, and a note for each line that is not a prediction of the run.

        """
        return read_shards(self._shards, set(ids))

    def set_aside_damage(self, ids: Iterable[str]) -> None:
        """Move unreadable lines from the shards to ``set_aside.jsonl``; call it in one process, before a run starts."""
        with self._describe_write_errors():
            set_aside_damage(self._shards, set(ids), self.path / "set_aside.jsonl")

    def shard(self, rank: int) -> Shard:
        """Return a new shard for this process; no other process writes to it."""
        return new_shard(self._shards, rank)

    def import_shards(self, other: "RunFolder") -> int:
        """Copy the shards of another folder of the same run. Doing it again changes nothing.

        Args:
            other: for example from another node's disk.

        Returns:
            How many shards were copied.

        Raises:
            H2HTalkError: the other folder has another run, or this one cannot be written.

        """
        if changes := other.differences(self.manifest()):
            raise H2HTalkError(f"{other.path} is not a part of the run in {self.path}. Differences: {changes}")
        with self._describe_write_errors():
            return copy_shards(other._shards, self._shards)

    def merge(self, ids: Sequence[str]) -> list[str]:
        """Write ``predictions.jsonl`` in the order of `ids` if every answer is there; return the missing ids."""
        answers, _ = self.answers(ids)
        missing = [identity for identity in ids if identity not in answers]
        if not missing:
            self._write_lines(self.predictions_file, [answers[identity] for identity in ids])
        return missing

    def write_failures(self, failures: Sequence[Mapping[str, Any]]) -> None:
        """Write ``failures.jsonl``, one line per prompt without an answer; remove the file if there are none."""
        file = self.path / "failures.jsonl"
        if failures:
            self._write_lines(file, failures)
        else:
            with self._describe_write_errors():
                file.unlink(missing_ok=True)

    def lock(self, wait_seconds: float = 0) -> None:
        """Keep other jobs out of the folder until this process ends, however it ends.

        Args:
            wait_seconds: for another job that has locked it.

        Raises:
            H2HTalkError: another job works in it, or it cannot be written.

        """
        with self._describe_write_errors():
            self._lock = acquire_lock(self.path, wait_seconds)

    def unlock(self) -> None:
        """Let other jobs in."""
        self._lock.release()

    def _check_no_independent_jobs(self) -> None:
        now = self.path / ".lock"
        now.touch()
        if number := working_jobs(self.path, now):
            raise H2HTalkError(
                f"{number} independent jobs are at work in {self.path}; wait for them, join them with --jobs, "
                "or choose another --out"
            )

    def _write_lines(self, file: Path, lines: Sequence[Mapping[str, Any]]) -> None:
        with self._describe_write_errors():
            write_atomically(file, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))

    def _describe_write_errors(self) -> AbstractContextManager[None]:
        return describe_write_errors(f"the run folder {self.path}")
