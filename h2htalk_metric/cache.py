"""A cache on disk that processes share. If something happens to it, that costs time or money, but never a result."""

__all__ = ["DiskCache"]

import logging
import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

_LOG = logging.getLogger(__name__)
_TIMEOUT = 60  # seconds to wait while another process writes
_DAMAGE = ("not a database", "malformed")  # a file that is locked, or cannot be opened, is not damaged

Key = TypeVar("Key", str, bytes)


class DiskCache:
    """Keys and values in one SQLite file.

    A damaged file is logged, renamed to ``*.damaged`` and replaced by a new one.

    Args:
        file: created with its folder by the first write.
        table: name of the table.
        timeout: seconds to wait while another process writes.

    """

    def __init__(self, file: Path, table: str = "entries", *, timeout: float = _TIMEOUT) -> None:
        self.file, self._table, self._timeout = file, table, timeout

    def get(self, keys: Iterable[Key]) -> dict[Key, Any]:
        """The stored values of these keys; keys without a value are missing. Empty if the file cannot be read."""
        if not self.file.exists():
            return {}
        query = f"SELECT * FROM {self._table} WHERE key = ?"
        try:
            with self._open() as database:
                return dict(row for key in keys for row in database.execute(query, [key]))
        except sqlite3.Error as error:
            if any(sign in str(error) for sign in _DAMAGE):
                self.discard(f"is damaged ({error})")
            else:
                _LOG.warning("cannot read the cache %s (%s); continuing without it", self.file, error)
            return {}

    def put(self, values: Mapping[Key, Any]) -> None:
        """Store values; they are on disk when this returns, or a warning says why not."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self._open() as database:
                database.executemany(f"INSERT OR REPLACE INTO {self._table} VALUES (?, ?)", values.items())
        except (OSError, sqlite3.Error) as error:
            _LOG.warning("cannot write the cache %s (%s); continuing without it", self.file, error)

    def discard(self, reason: str) -> None:
        """Rename the file to a unique name, so that the next write creates a new one."""
        aside = self.file.with_name(f"{self.file.stem}-{time.strftime('%Y%m%d')}-{uuid.uuid4().hex[:8]}.damaged")
        try:
            self.file.replace(aside)
        except FileNotFoundError:  # another process has renamed it
            return
        _LOG.warning("the cache %s %s; renamed to %s and created again", self.file, reason, aside.name)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.file, timeout=self._timeout)) as database, database:
            # Another process may have created the file a moment ago, and not yet the table.
            database.execute(f"CREATE TABLE IF NOT EXISTS {self._table} (key PRIMARY KEY, value) WITHOUT ROWID")
            yield database
