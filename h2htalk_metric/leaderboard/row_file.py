"""``rows.jsonl``: the rows of all submissions, one JSON line each. It is derived and can be deleted at any time."""

__all__ = ["RowFile"]

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import ValidationError

from h2htalk_datasets.files import append_json_line, read_json_lines, write_atomically
from h2htalk_metric.leaderboard.row import ROW_VERSION, Row


class RowFile:
    """Reads the file again only when it has changed.

    Args:
        path: of the file; it may be missing.

    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows: dict[str, Row] = {}
        self._version: tuple[int, int] | None = None

    def rows(self) -> Mapping[str, Row]:
        """Rows by digest; the last line of a digest counts. Damaged lines and other versions are left out."""
        version = self._file_version()
        if version != self._version:
            lines = (line for line in read_json_lines(self.path) if line.get("version") == ROW_VERSION)
            self._rows = {row.digest: row for line in lines if (row := _row(line))}
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


def _row(line: Mapping[str, object]) -> Row | None:
    try:
        return Row.model_validate(line)
    except ValidationError:
        return None
