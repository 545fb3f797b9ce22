"""``rows.jsonl``: the rows of all submissions, one JSON line each. It is derived and can be deleted at any time."""

__all__ = ["RowFile"]

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import ValidationError

from h2htalk_datasets.files import append_json_line, write_atomically
from h2htalk_metric.leaderboard.row import Row


class RowFile:
    """Reads the file again only when it has changed, and then parses only new lines.

    Args:
        path: of the file; it may be missing.

    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows: dict[str, Row] = {}
        self._parsed: dict[bytes, Row | None] = {}
        self._version: tuple[int, int] | None = None

    def rows(self) -> Mapping[str, Row]:
        """Rows by digest; the last line of a digest counts. Damaged lines and other versions are left out."""
        version = self._file_version()
        if version != self._version:
            lines = self.path.read_bytes().splitlines() if version else []
            self._parsed = {line: self._parsed[line] if line in self._parsed else _parse(line) for line in lines}
            self._rows = {row.digest: row for line in lines if (row := self._parsed[line])}
            self._version = version
        return self._rows

    def append(self, row: Row) -> None:
        """Add a row; it is on disk when this returns."""
        append_json_line(self.path, row.model_dump(mode="json"))

    def replace(self, rows: Iterable[Row]) -> None:
        """Write the file again with these rows only."""
        write_atomically(self.path, "".join(f"{row.model_dump_json()}\n" for row in rows))

    def _file_version(self) -> tuple[int, int] | None:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        return status.st_mtime_ns, status.st_size


def _parse(line: bytes) -> Row | None:
    try:
        return Row.model_validate_json(line)
    except ValidationError:
        return None
