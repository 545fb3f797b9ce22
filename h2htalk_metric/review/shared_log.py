"""An append-only JSONL file that several processes write."""

__all__ = ["SharedLog"]

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import describe_write_errors, write_all, write_atomically

_LOCK_TIMEOUT = 30  # seconds to wait while another process writes


class SharedLog:
    """Lines of JSON, read from where the last call stopped.

    Args:
        file: need not exist yet.

    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._offset = 0  # end of the last complete line that was read

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other writers out.

        Raises:
            H2HTalkError: another writer keeps the lock, or the file cannot be written.

        """
        with describe_write_errors(self.file), FileLock(self.file.with_name(f".{self.file.name}.lock"), _LOCK_TIMEOUT):
            yield

    def create(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Write the file in one step; call it under the lock."""
        write_atomically(self.file, _content(lines))

    def append(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Append lines; they are on disk when this returns. Call it under the lock, after :meth:`read_new`."""
        is_partial = self.file.stat().st_size > self._offset  # a killed process left a part of its line
        with self.file.open("ab", buffering=0) as handle:
            write_all(handle, b"\n" * is_partial + _content(lines))
            os.fsync(handle.fileno())

    def read_new(self) -> list[dict[str, Any]]:
        """The lines that were appended since the last call; a part of a line is skipped.

        Raises:
            H2HTalkError: the file cannot be read, for instance because somebody moved it away.

        """
        try:
            with self.file.open("rb") as handle:
                handle.seek(self._offset)
                new = handle.read()
        except OSError as error:
            raise H2HTalkError(f"cannot read {self.file}: {error.strerror}") from None
        complete = new[: new.rfind(b"\n") + 1]
        self._offset += len(complete)
        lines = []
        for raw in complete.split(b"\n"):
            with suppress(ValueError):
                lines.append(json.loads(raw))
        return [line for line in lines if isinstance(line, dict)]


def _content(lines: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)
