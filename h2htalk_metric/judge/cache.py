"""Verdicts on disk: what a judge has once said to a prompt is never paid for again. Failures are never kept."""

__all__ = ["VerdictCache"]

import json
import logging
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from huggingface_hub.constants import HF_HOME

from h2htalk_metric.cache import SQLiteCache

_LOG = logging.getLogger(__name__)


class VerdictCache:
    """Valid replies by the content of what was asked; a damaged file is named, set aside and made again.

    Args:
        file: where it lies; ``h2htalk/verdicts.sqlite`` under ``HF_HOME`` if not given.

    """

    def __init__(self, file: Path | None = None) -> None:
        self.file = file or Path(HF_HOME) / "h2htalk" / "verdicts.sqlite"
        self._kept = SQLiteCache(self.file, "verdicts (key TEXT PRIMARY KEY, reply TEXT)")

    @staticmethod
    def key(asked: Mapping[str, Any]) -> str:
        """SHA-256 (hex) of everything a reply depends on: server, model, messages, schema, settings."""
        return sha256(json.dumps(asked, sort_keys=True, ensure_ascii=False).encode()).hexdigest()

    def get(self, key: str) -> dict[str, Any] | None:
        """What was kept under a key, or None."""
        for (reply,) in self._kept.select("SELECT reply FROM verdicts WHERE key = ?", [key]):
            try:
                return json.loads(reply)
            except ValueError:
                _LOG.warning("a verdict in %s can't be read; it is asked for again", self.file)
        return None

    def put(self, key: str, reply: Mapping[str, Any]) -> None:
        """Keep a valid reply; on disk when this returns."""
        self._kept.insert([(key, json.dumps(reply))])
