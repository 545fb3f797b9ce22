"""The folder of a board, and in a Space also a dataset repository on the Hub.

submissions/DIGEST.json.gz   as submitted; delete a file to remove the run, or to let it be submitted again
rows.jsonl                   what the board computed from them; computed again if it is missing, damaged or old

The file name is a digest of the answers, so the same answers cannot be stored twice.
"""

__all__ = ["Storage"]

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import cache
from pathlib import Path

from filelock import FileLock, Timeout

from h2htalk_datasets.errors import H2HTalkError, one_line
from h2htalk_datasets.files import write_atomically
from h2htalk_datasets.progress import progress_bar
from h2htalk_metric.leaderboard.hub_repository import commit, fetch
from h2htalk_metric.leaderboard.row import Row
from h2htalk_metric.leaderboard.row_file import RowFile
from h2htalk_metric.leaderboard.submission import Submission, digest_of, pack, unpack
from h2htalk_metric.leaderboard.validation import embedder_config, load_board_embedder, validate
from h2htalk_metric.metrics.similarity import Embedder, load_embedder

_SUFFIX = ".json.gz"
_SECONDS_PER_COMMIT = 300.0  # of rows computed again, so that a Space that is stopped continues from there
_LOCK_MESSAGE_AFTER = 5.0  # seconds


class Storage:
    """All submissions of one board. Threads and processes may share the folder.

    Args:
        folder: created if missing.
        hub_repo: id of a dataset repository that also stores the files: downloaded at the start, a commit per
            submission.
        allow_partial: also accept runs over some of the records.
        recompute_ss: compute SS again if the embedder is BGE-M3 or the demo's.
        load: loads an embedder by name.

    Raises:
        H2HTalkError: the repository cannot be downloaded.

    """

    def __init__(
        self,
        folder: str | Path,
        *,
        hub_repo: str | None = None,
        allow_partial: bool = False,
        recompute_ss: bool = False,
        load: Callable[[str], Embedder] = load_embedder,
    ) -> None:
        self.folder, self.allow_partial, self.recompute_ss = Path(folder), allow_partial, recompute_ss
        self._hub_repo = hub_repo
        self._embedder = cache(lambda name: load_board_embedder(name, load) if recompute_ss else None)
        self._submissions = self.folder / "submissions"
        self._row_file = RowFile(self.folder / "rows.jsonl")
        self._reading = threading.Lock()
        self._reported: set[str] = set()  # digests without a row
        self._submissions.mkdir(parents=True, exist_ok=True)
        if hub_repo:
            fetch(hub_repo, self.folder)
        with self._lock():
            self._compute_missing_rows()

    def submit(self, content: bytes) -> Row:
        """Validate a submission's file and store it with its row.

        Raises:
            H2HTalkError: it is refused, or could not be stored; says why and what to do.

        """
        received = datetime.now(timezone.utc).replace(microsecond=0)
        submission = unpack(content).model_copy(update={"received": received})
        self._check_new(digest_of(submission))  # before the expensive part
        row = self._validate(submission, allow_partial=self.allow_partial)
        with self._lock():
            self._check_new(row.digest)  # another process may have stored it meanwhile
            self._store(submission, row)
        return row

    def rows(self) -> list[Row]:
        """All rows, oldest first."""
        with self._reading:
            rows, digests = self._row_file.rows(), set(map(_digest, self._files()))
            for digest in digests - rows.keys() - self._reported:
                self._report(digest, "it has no row in rows.jsonl; restart the board to compute it again")
            return sorted((rows[d] for d in digests & rows.keys()), key=lambda row: (row.submitted, row.digest))

    def row(self, digest: str) -> Row:
        """One row.

        Raises:
            H2HTalkError: there is none with that digest.

        """
        row = next((row for row in self.rows() if row.digest == digest), None)
        if row is None:
            raise H2HTalkError(f"no submission {digest!r} on this board; it may have been removed")
        return row

    def submission(self, row: Row) -> Submission:
        """The submission of a row.

        Raises:
            H2HTalkError: its file cannot be read.

        """
        try:
            return unpack(self._file(row.digest).read_bytes())
        except OSError as error:
            raise H2HTalkError(f"cannot read the submission {row.digest} ({error.strerror})") from None

    def _validate(self, submission: Submission, *, allow_partial: bool) -> Row:
        embedder = self._embedder(submission.signature.embedder)
        return validate(submission, allow_partial=allow_partial, embedder=embedder)

    def _store(self, submission: Submission, row: Row) -> None:
        """Write the row first: a row without a submission is not shown, so an interrupted write leaves nothing."""
        file, content, fate = self._file(row.digest), pack(submission), "nothing was stored"
        files: dict[str, bytes | Path] = {f"submissions/{file.name}": content, "rows.jsonl": self._row_file.path}
        try:
            self._row_file.append(row)
            if self._hub_repo:
                commit(self._hub_repo, files, f"Submission of {row.model}")
                fate = f"it is in {self._hub_repo}; a restart shows it"
            write_atomically(file, content)
        except OSError as error:
            reason = error.strerror or one_line(error)
            raise H2HTalkError(f"cannot write to the board's folder {self.folder} ({reason}); {fate}") from error

    def _check_new(self, digest: str) -> None:
        """Refuse answers that are shown already; what was left off the board may be submitted again."""
        if not self._file(digest).exists():
            return
        model = next((row.model for row in self.rows() if row.digest == digest), None)
        if model is not None:
            raise H2HTalkError(
                f"these answers are already on the board, as {model!r} (run {digest}); to submit them under another "
                f"name or bracket, the owner of the board first deletes submissions/{digest}{_SUFFIX}"
            )

    def _compute_missing_rows(self) -> None:
        stored = self._row_file.rows()
        current = {d: stored[d] for d in map(_digest, self._files()) if d in stored and self._is_current(stored[d])}
        missing = [file for file in self._files() if _digest(file) not in current]
        if not missing:
            return
        committed = time.monotonic()
        with progress_bar("rows", len(missing)) as progress:
            for file in missing:
                if row := self._compute_row(file):
                    current[row.digest] = row
                    self._row_file.append(row)
                if time.monotonic() - committed > _SECONDS_PER_COMMIT:
                    self._commit_rows()
                    committed = time.monotonic()
                progress.update(1)
        self._row_file.replace(current.values())
        self._commit_rows()

    def _compute_row(self, file: Path) -> Row | None:
        """The row of a stored submission; None if it is not valid any more, for instance with another dataset."""
        try:
            submission = unpack(file.read_bytes())
            if digest_of(submission) != _digest(file):
                name = f"{digest_of(submission)}{_SUFFIX}"
                raise H2HTalkError(f"the file name must be the digest of the answers; rename it to {name}")
            return self._validate(submission, allow_partial=True)
        except H2HTalkError as error:
            self._report(_digest(file), str(error))
            return None

    def _is_current(self, row: Row) -> bool:
        """Whether this board would compute the same row, as far as its embedder decides."""
        embedder = self._embedder(row.scoring_config["embedder"])
        if embedder is None:
            return True
        own = embedder_config(embedder.name, embedder.revision, embedder.precision)
        return row.ss == "recomputed" and own.items() <= row.scoring_config.items()

    def _commit_rows(self) -> None:
        if not self._hub_repo or not self._row_file.path.exists():
            return
        try:
            commit(self._hub_repo, {"rows.jsonl": self._row_file.path}, "Rows computed again")
        except H2HTalkError as error:  # the board works without it
            print(f"rows.jsonl is not in {self._hub_repo}, the next start computes it again: {error}", file=sys.stderr)

    def _report(self, digest: str, reason: str) -> None:
        self._reported.add(digest)
        print(f"left off the board: {digest}{_SUFFIX}: {reason}", file=sys.stderr)

    def _files(self) -> list[Path]:
        return [file for file in self._submissions.iterdir() if file.name.endswith(_SUFFIX)]

    def _file(self, digest: str) -> Path:
        return self._submissions / f"{digest}{_SUFFIX}"

    @contextmanager
    def _lock(self) -> Iterator[None]:
        lock = FileLock(self.folder / ".lock")
        try:
            lock.acquire(timeout=_LOCK_MESSAGE_AFTER)
        except Timeout:
            print(f"waiting for another process that writes to the board in {self.folder}", file=sys.stderr)
            lock.acquire()
        try:
            yield
        finally:
            lock.release()


def _digest(file: Path) -> str:
    return file.name.removesuffix(_SUFFIX)
