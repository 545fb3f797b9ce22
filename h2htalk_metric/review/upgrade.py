"""Convert ``reviews.sqlite`` of earlier versions; all its revisions and drafts stay."""

__all__ = ["convert_database"]

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError

_ITEM_KEYS = ("id", "task", "parts", "reference", "answer", "rubric", "group")
_REVIEW_KEYS = ("item", "rater", "marks", "comment", "revision", "time", "source")


def convert_database(file: Path) -> list[dict[str, Any]]:
    """Read the database of an earlier version.

    Returns:
        The lines of ``reviews.jsonl``, see :mod:`h2htalk_metric.review.reviews`; none if the database is empty.

    Raises:
        H2HTalkError: the file is damaged, or of an unknown version.

    """
    try:
        with closing(sqlite3.connect(file)) as database:
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, 1):
                raise H2HTalkError(f"{file} was written by another version of h2htalk; move it away")
            return _lines(database) if version else []
    except sqlite3.Error as error:
        raise H2HTalkError(f"{file} cannot be read ({error}); restore it or move it away") from None


def _lines(database: sqlite3.Connection) -> list[dict[str, Any]]:
    items = [dict(zip(_ITEM_KEYS, row, strict=True)) for row in database.execute("SELECT * FROM items ORDER BY rowid")]
    header = {
        "format": 1,
        "settings": json.loads(database.execute("SELECT body FROM settings").fetchone()[0]),
        "rubrics": {key: json.loads(body) for key, body in database.execute("SELECT * FROM rubrics")},
        "items": [item | {"parts": json.loads(item["parts"])} for item in items],
    }
    revisions = database.execute(
        "SELECT item, name, marks, note, revision, time, source FROM revisions JOIN raters ON rater = key "
        "ORDER BY number"
    )
    drafts = database.execute("SELECT item, name, marks, note FROM drafts JOIN raters ON rater = key")
    lines = [dict(zip(_REVIEW_KEYS, row, strict=True)) for row in revisions]
    lines += [dict(zip(_REVIEW_KEYS, row, strict=False)) | {"draft": True} for row in drafts]
    return [header, *(line | {"marks": json.loads(line["marks"])} for line in lines)]
