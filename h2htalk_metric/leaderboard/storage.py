"""Where submissions lie: a folder, and in a Space also a dataset repository on the Hub.

submissions/DIGEST.json.gz   as submitted, one file each; delete one to take it off the board, or to submit it anew
rows/DIGEST.json, .npy       what the board computed of it, so that no page reads raw answers; made anew where missing
samples/DIGEST.json          the answers that the run's page shows, likewise

The name is a digest of the answers, so the same answers can't be stored twice.
"""

__all__ = ["Storage"]

import io
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from h2htalk_datasets.errors import H2HTalkError, one_line
from h2htalk_datasets.files import write_atomically
from h2htalk_datasets.progress import Progress
from h2htalk_metric.leaderboard.admission import (
    ROW_FORMAT,
    Admitted,
    Row,
    Sample,
    Samples,
    admit,
    digest_of,
    recomputable,
    setup_here,
)
from h2htalk_metric.leaderboard.submission import pack, unpack

_PARTS = ("submissions", "rows", "samples")
# Of rows computed anew. A Space that is stopped meanwhile, for instance since it took too long, begins with the next.
_ROWS_A_COMMIT, _SECONDS_A_COMMIT = 50, 300.0
_WAITING = 5.0  # seconds for the lock after which it is said


class Storage:
    """All submissions of one board. Threads and processes may share the folder.

    Attributes:
        folder: where it lies.
        allow_partial: take runs with a part of the records, too.
        recompute_ss: embed all answers anew, if the embedder is BGE-M3 or the demo's.

    """

    def __init__(
        self,
        folder: str | Path,
        *,
        hub_repo: str | None = None,
        allow_partial: bool = False,
        recompute_ss: bool = False,
    ) -> None:
        """Open a storage, make its folder, fetch what the Hub has, and compute the rows that are missing.

        Args:
            folder: for all files.
            hub_repo: id of a dataset repository that keeps them too: fetched now, a commit with each submission and
                with the rows computed anew, every fifty or every five minutes.
            allow_partial: take runs with a part of the records, too.
            recompute_ss: embed all answers anew, if the embedder is BGE-M3 or the demo's.

        """
        self.folder, self.allow_partial, self.recompute_ss = Path(folder), allow_partial, recompute_ss
        self._hub_repo = hub_repo
        self._rows: dict[str, tuple[int, Row | None]] = {}  # with its file's time; None if it can't be read
        self._draws: dict[str, np.ndarray] = {}
        self._reading = threading.Lock()
        if hub_repo:
            self._fetch(hub_repo)
        for part in _PARTS:
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        self._compute_missing()

    def submit(self, content: bytes) -> Row:
        """Check a submission's file, compute its row and keep both.

        Raises:
            H2HTalkError: it is refused, or could not be stored; says why and what to do.

        """
        now = datetime.now(timezone.utc).replace(microsecond=0)
        submission = unpack(content).model_copy(update={"received": now})
        self._refuse_double(digest_of(submission))  # before the work
        admitted = admit(submission, allow_partial=self.allow_partial, recompute_ss=self.recompute_ss)
        with self._lock():
            self._refuse_double(admitted.row.digest)  # somebody else may have come first
            files = _row_files(admitted) | {f"submissions/{admitted.row.digest}.json.gz": pack(submission)}
            if self._hub_repo:
                self._commit(self._hub_repo, files, f"Submission of {admitted.row.model}")
            try:
                self._write(files)
            except OSError as error:
                fate = f"it is in {self._hub_repo}, a restart shows it" if self._hub_repo else "nothing was kept"
                reason = error.strerror or one_line(error)
                raise H2HTalkError(f"can't write the board's folder {self.folder} ({reason}); {fate}") from error
        return admitted.row

    def rows(self) -> list[Row]:
        """All rows that can be read, the oldest first; reads only what is new."""
        with self._reading:
            times = {digest: written for digest in map(_digest, self._files()) if (written := self._written(digest))}
            for digest in self._rows.keys() - times.keys():
                del self._rows[digest]
            for digest, written in times.items():
                if self._rows.get(digest, (0, None))[0] != written:
                    self._rows[digest] = written, self._read_or_tell(digest)
                    self._draws.pop(digest, None)
            known = [row for _, row in self._rows.values() if row]
            return sorted(known, key=lambda row: (row.submitted, row.digest))

    def _written(self, digest: str) -> int:
        """When a row was computed, in nanoseconds; 0 where there is none."""
        try:
            return (self.folder / "rows" / f"{digest}.json").stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def _read_or_tell(self, digest: str) -> Row | None:
        try:
            return self._read(digest)
        except FileNotFoundError:  # another process has just left it off
            return None
        except ValueError as error:  # one bad file must not take the whole board down
            _tell(f"the row rows/{digest}.json can't be read ({one_line(error)}); restart to make it anew")
            return None

    def row(self, digest: str) -> Row:
        """One row.

        Raises:
            H2HTalkError: there is none of that digest.

        """
        found = next((row for row in self.rows() if row.digest == digest), None)
        if found is None:
            raise H2HTalkError(f"no submission {digest!r} on this board; it may have been taken off")
        return found

    def draws(self, digest: str) -> np.ndarray:
        """A row's bootstrap resamples of Overall, see :class:`h2htalk_metric.leaderboard.admission.Admitted`.

        Empty where the file can't be read, so that the row has no ties; a restart makes it anew.
        """
        if digest not in self._draws:
            try:
                self._draws[digest] = self._read_draws(digest)
            except (OSError, ValueError, EOFError) as error:
                _tell(f"rows/{digest}.npy can't be read ({one_line(error)}); restart to make it anew")
                self._draws[digest] = np.empty(0, np.float32)
        return self._draws[digest]

    def _read_draws(self, digest: str) -> np.ndarray:
        draws: np.ndarray = np.load(self.folder / "rows" / f"{digest}.npy")
        return draws

    def samples(self, digest: str) -> dict[str, list[Sample]]:
        """The answers by config that the page of a row shows.

        Raises:
            H2HTalkError: there is no such row, or its samples can't be read.

        """
        self.row(digest)  # so no other path is ever opened
        try:
            return self._read_samples(digest)
        except (OSError, ValueError) as error:
            reason = one_line(error)
            raise H2HTalkError(f"samples/{digest}.json can't be read ({reason}); a restart makes it anew") from None

    def _read_samples(self, digest: str) -> dict[str, list[Sample]]:
        return Samples.validate_json((self.folder / "samples" / f"{digest}.json").read_bytes())

    def _files(self) -> list[Path]:
        return [file for file in (self.folder / "submissions").iterdir() if file.name.endswith(".json.gz")]

    @contextmanager
    def _lock(self) -> Iterator[None]:
        lock = FileLock(self.folder / ".lock")
        try:
            lock.acquire(timeout=_WAITING)
        except Timeout:
            _tell(f"waiting for another process that is at work on the board in {self.folder}")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def _refuse_double(self, digest: str) -> None:
        """Refuse what is shown already; what was left off may be sent again."""
        if not (self.folder / "submissions" / f"{digest}.json.gz").exists():
            return
        name = next((row.model for row in self.rows() if row.digest == digest), None)
        if name is not None:
            raise H2HTalkError(
                f"these answers are on the board already, as {name!r} (run {digest}); for another name or bracket the "
                f"board's keeper first deletes submissions/{digest}.json.gz"
            )

    def _write(self, files: Mapping[str, bytes]) -> None:
        """Write files in their order: a row's JSON after what it needs, a submission last, since that shows it."""
        for name, data in files.items():
            write_atomically(self.folder / name, data)

    def _compute_missing(self) -> None:
        """Rows that got lost, or were computed by another version, are made again from the submissions."""
        with self._lock():
            old = [file for file in self._files() if not self._is_current(_digest(file))]
            if not old:
                return
            made: dict[str, bytes] = {}
            kept = time.monotonic()
            with Progress("rows", len(old)) as progress:
                for done, file in enumerate(old, 1):
                    made |= self._computed_anew(file)
                    if done % _ROWS_A_COMMIT == 0 or done == len(old) or time.monotonic() - kept > _SECONDS_A_COMMIT:
                        self._keep_on_hub(made)
                        made, kept = {}, time.monotonic()
                    progress.update(done)

    def _computed_anew(self, file: Path) -> dict[str, bytes]:
        """The files of a stored submission's row, written already; none if it does not stand up any more."""
        try:
            submission = unpack(file.read_bytes())
            if digest_of(submission) != _digest(file):
                raise H2HTalkError(f"files here are named by their answers; rename it {digest_of(submission)}.json.gz")
            admitted = admit(submission, allow_partial=True, recompute_ss=self.recompute_ss)
        except H2HTalkError as error:  # for instance after a change of the dataset
            for name in _row_names(_digest(file)):
                (self.folder / name).unlink(missing_ok=True)
            _tell(f"left off the board: {file.name}: {error}")
            return {}
        files = _row_files(admitted)
        self._write(files)
        return files

    def _keep_on_hub(self, files: dict[str, bytes]) -> None:
        """Commit rows computed anew, so that the next start need not; the board stands without it, too."""
        if not self._hub_repo or not files:
            return
        try:
            self._commit(self._hub_repo, files, "Rows computed anew")
        except H2HTalkError as error:
            _tell(f"rows computed anew are not in {self._hub_repo}, so the next start computes them again: {error}")

    def _is_current(self, digest: str) -> bool:
        """Whether all is there, readable, of this version, and with the SS that this board would give it."""
        try:
            row = self._read(digest)
            self._read_draws(digest)
            self._read_samples(digest)
        except (OSError, ValueError, EOFError):
            return False
        if row.format != ROW_FORMAT:
            return False
        if not (self.recompute_ss and recomputable(row.setup["embedder"])):
            return True
        return row.ss == "recomputed" and row.setup == row.setup | setup_here(row.setup["embedder"])

    def _read(self, digest: str) -> Row:
        return Row.model_validate_json((self.folder / "rows" / f"{digest}.json").read_bytes())

    def _fetch(self, repo: str) -> None:
        from huggingface_hub import HfApi, snapshot_download

        self.folder.mkdir(parents=True, exist_ok=True)
        patterns = [f"{part}/*" for part in _PARTS]
        try:
            snapshot_download(repo, repo_type="dataset", local_dir=self.folder, allow_patterns=patterns)
            kept = set(HfApi().list_repo_files(repo, repo_type="dataset"))
        except Exception as error:  # no repository, no leave, no network: whatever it is, the board can't start without
            raise H2HTalkError(
                f"can't fetch the board's dataset repository {repo!r} ({one_line(error)}); make it on the Hub, "
                "and see that HF_TOKEN may write there and that the network is up"
            ) from error
        for file in self.folder.glob("submissions/*.json.gz"):
            if f"submissions/{file.name}" not in kept:  # its keeper has deleted it there, while this disk lived on
                _tell(f"taken off the board: {file.name} is not in {repo}; here it is {file.name}.off now")
                file.rename(f"{file}.off")

    def _commit(self, repo: str, files: dict[str, bytes], message: str) -> None:
        """One commit a submission: what was accepted is kept, even if the Space stops the next moment."""
        from huggingface_hub import CommitOperationAdd, HfApi

        operations = [CommitOperationAdd(name, data) for name, data in files.items()]
        try:
            HfApi().create_commit(repo, operations, commit_message=message, repo_type="dataset")
        except Exception as error:  # whatever the network brings, the sender must know
            raise H2HTalkError(
                f"the board's storage did not answer, nothing was kept; try again ({one_line(error)})"
            ) from error


def _digest(file: Path) -> str:
    return file.name.removesuffix(".json.gz")


def _row_names(digest: str) -> tuple[str, str, str]:
    return f"samples/{digest}.json", f"rows/{digest}.npy", f"rows/{digest}.json"


def _row_files(admitted: Admitted) -> dict[str, bytes]:
    """What is kept of a row, by file; its JSON last, since what has one is shown."""
    array = io.BytesIO()
    np.save(array, admitted.draws)
    contents = Samples.dump_json(admitted.samples), array.getvalue(), admitted.row.model_dump_json().encode()
    return dict(zip(_row_names(admitted.row.digest), contents, strict=True))


def _tell(text: str) -> None:
    print(text, file=sys.stderr)
