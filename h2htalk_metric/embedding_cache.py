"""Reference embeddings on disk: a second model is scored against the same references, so they are embedded once.

One SQLite file per embedder and revision, keyed by text. Predictions are never kept.
"""

__all__ = ["EmbeddingCache"]

import hashlib
import logging
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from huggingface_hub.constants import HF_HOME

_LOG = logging.getLogger(__name__)
_KEYS_A_QUERY = 500


class EmbeddingCache:
    """Vectors by text for one embedder; a damaged file is named, set aside and made again.

    Args:
        embedder: its name.
        revision: of its weights; another revision has another file.
        folder: where the files lie; ``h2htalk/embeddings`` under ``HF_HOME`` if not given.

    """

    def __init__(self, embedder: str, revision: str, folder: Path | None = None) -> None:
        name = hashlib.sha256(f"{embedder}\0{revision}".encode()).hexdigest()[:16]
        self.file = (folder or Path(HF_HOME) / "h2htalk" / "embeddings") / f"{name}.sqlite"

    def encode(self, texts: Sequence[str], embed: Callable[[Sequence[str]], np.ndarray]) -> np.ndarray:
        """Return the texts' unit vectors, shape (len(texts), dimension), embedding only those that are new."""
        keys = [hashlib.sha256(text.encode()).digest() for text in texts]
        known = self._read(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            fresh = dict(zip(missing, embed(list(missing.values())), strict=True))
            dimension = len(next(iter(fresh.values())))
            if any(len(vector) != dimension for vector in known.values()):
                self._set_aside(f"holds vectors of another dimension than {dimension}")
                return self.encode(texts, embed)
            self._write(fresh)
            known |= fresh
        return np.stack([known[key] for key in keys])

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, np.ndarray]:
        found: dict[bytes, np.ndarray] = {}
        if not self.file.exists():
            return found
        try:
            with closing(sqlite3.connect(self.file)) as database:
                for start in range(0, len(keys), _KEYS_A_QUERY):
                    part = keys[start : start + _KEYS_A_QUERY]
                    marks = ",".join("?" * len(part))
                    query = f"SELECT key, vector FROM vectors WHERE key IN ({marks})"
                    found.update({k: np.frombuffer(v, np.float32) for k, v in database.execute(query, part)})
        except (sqlite3.DatabaseError, ValueError) as error:
            self._set_aside(f"can't be read ({error})")
            return {}
        if any(not np.isfinite(vector).all() or abs(vector @ vector - 1) > 1e-3 for vector in found.values()):
            self._set_aside("holds vectors that are not of length one")
            return {}
        return found

    def _write(self, vectors: dict[bytes, np.ndarray]) -> None:
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.file, timeout=60)) as database, database:
                database.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")
                rows = [(key, np.asarray(vector, np.float32).tobytes()) for key, vector in vectors.items()]
                database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
        except (OSError, sqlite3.Error) as error:
            # A cache that can't be kept costs time, never a result.
            _LOG.warning("reference embeddings are not kept, %s can't be written (%s)", self.file, error)

    def _set_aside(self, reason: str) -> None:
        damaged = self.file.with_suffix(".damaged")
        _LOG.warning("the embedding cache %s %s; set aside as %s and made again", self.file, reason, damaged.name)
        self.file.replace(damaged)
