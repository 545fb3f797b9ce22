"""A SQLite file as a cache that processes share: what befalls it costs time or money, never a result."""

__all__ = ["SQLiteCache"]

import logging
import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

_LOG = logging.getLogger(__name__)
_WAIT = 60  # seconds for another process to finish writing
_DAMAGE = ("not a database", "malformed")  # a file that is locked, or can't be opened, is none the worse for it


class SQLiteCache:
    """One table of keys and values in one file.

    Args:
        file: made by the first write, with its folder.
        table: its name and columns, the key first.

    """

    def __init__(self, file: Path, table: str) -> None:
        self.file = file
        self._table, self._name = table, table.split(maxsplit=1)[0]

    def select(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The rows of a query; none where there is no file or it can't be read, which is said."""
        if not self.file.exists():
            return []
        try:
            with self._opened() as database:
                return database.execute(query, values).fetchall()
        except sqlite3.Error as error:
            if any(sign in str(error) for sign in _DAMAGE):
                self.set_aside(f"is damaged ({error})")
            else:
                _LOG.warning("%s can't be read now (%s); what it holds is made again", self.file, error)
            return []

    def insert(self, rows: Iterable[tuple[Any, Any]]) -> None:
        """Keep keys and values; on disk when this returns, or it is said why not."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self._opened() as database:
                database.executemany(f"INSERT OR REPLACE INTO {self._name} VALUES (?, ?)", rows)
        except (OSError, sqlite3.Error) as error:
            _LOG.warning("nothing is kept, %s can't be written (%s)", self.file, error)

    def set_aside(self, reason: str) -> None:
        """Rename the file, to a name that no other has, so that the next write makes it anew."""
        aside = self.file.with_name(f"{self.file.stem}-{time.strftime('%Y%m%d')}-{uuid.uuid4().hex[:8]}.damaged")
        try:
            self.file.replace(aside)
        except FileNotFoundError:  # another process has set it aside
            return
        _LOG.warning("%s %s; set aside as %s and made again", self.file, reason, aside.name)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.file, timeout=_WAIT)) as database, database:
            # Another process may have made the file a moment ago, and its table not yet.
            database.execute(f"CREATE TABLE IF NOT EXISTS {self._table} WITHOUT ROWID")
            yield database
