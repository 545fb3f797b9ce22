"""Verdicts on disk: what a judge has once said to a prompt is never paid for again. Failures are never kept."""

__all__ = ["VerdictCache"]

import json
import logging
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

from huggingface_hub.constants import HF_HOME

_LOG = logging.getLogger(__name__)


class VerdictCache:
    """Valid replies by the content of what was asked; a damaged file is named, set aside and made again.

    Args:
        file: where it lies; ``h2htalk/verdicts.sqlite`` under ``HF_HOME`` if not given.

    """

    def __init__(self, file: Path | None = None) -> None:
        self.file = file or Path(HF_HOME) / "h2htalk" / "verdicts.sqlite"

    @staticmethod
    def key(asked: Mapping[str, Any]) -> str:
        """SHA-256 (hex) of everything a reply depends on: server, model, messages, schema, settings."""
        return sha256(json.dumps(asked, sort_keys=True, ensure_ascii=False).encode()).hexdigest()

    def get(self, key: str) -> dict[str, Any] | None:
        """What was kept under a key, or None."""
        if not self.file.exists():
            return None
        try:
            with closing(sqlite3.connect(self.file, timeout=60)) as database:
                found = database.execute("SELECT reply FROM verdicts WHERE key = ?", (key,)).fetchone()
            return json.loads(found[0]) if found else None
        except (sqlite3.DatabaseError, ValueError) as error:
            damaged = self.file.with_suffix(".damaged")
            _LOG.warning("%s can't be read (%s); set aside as %s and made again", self.file, error, damaged.name)
            self.file.replace(damaged)
            return None

    def put(self, key: str, reply: Mapping[str, Any]) -> None:
        """Keep a valid reply; on disk when this returns."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.file, timeout=60)) as database, database:
                database.execute("CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, reply TEXT) WITHOUT ROWID")
                database.execute("INSERT OR REPLACE INTO verdicts VALUES (?, ?)", (key, json.dumps(reply)))
        except (OSError, sqlite3.Error) as error:
            # A cache that can't be kept costs money, never a result.
            _LOG.warning("verdicts are not kept, %s can't be written (%s)", self.file, error)
