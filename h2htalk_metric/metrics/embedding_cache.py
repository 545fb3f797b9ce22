"""Reference embeddings on disk: a second model is scored against the same references, so they are embedded once.

One SQLite file per embedder and revision, keyed by text. Predictions are never kept.
"""

__all__ = ["EmbeddingCache"]

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from huggingface_hub.constants import HF_HOME

from h2htalk_metric.cache import SQLiteCache

_KEYS_A_QUERY = 500


class EmbeddingCache:
    """Vectors by text for one embedder; a damaged file is named, set aside and made again.

    Args:
        embedder: its name.
        revision: of its weights, and their precision; another revision has another file.
        folder: where the files lie; ``h2htalk/embeddings`` under ``HF_HOME`` if not given.

    """

    def __init__(self, embedder: str, revision: str, folder: Path | None = None) -> None:
        name = hashlib.sha256(f"{embedder}\0{revision}".encode()).hexdigest()[:16]
        self.file = (folder or Path(HF_HOME) / "h2htalk" / "embeddings") / f"{name}.sqlite"
        self._kept = SQLiteCache(self.file, "vectors (key BLOB PRIMARY KEY, vector BLOB)")

    def encode(self, texts: Sequence[str], embed: Callable[[Sequence[str]], np.ndarray]) -> np.ndarray:
        """Return the texts' unit vectors, shape (len(texts), dimension), embedding only those that are new."""
        keys = [hashlib.sha256(text.encode()).digest() for text in texts]
        known = self._read(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            fresh = dict(zip(missing, embed(list(missing.values())), strict=True))
            dimension = len(next(iter(fresh.values())))
            if any(len(vector) != dimension for vector in known.values()):
                self._kept.set_aside(f"holds vectors of another dimension than {dimension}")
                return self.encode(texts, embed)
            self._kept.insert([(key, np.asarray(vector, np.float32).tobytes()) for key, vector in fresh.items()])
            known |= fresh
        return np.stack([known[key] for key in keys])

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, np.ndarray]:
        found: dict[bytes, np.ndarray] = {}
        for start in range(0, len(keys), _KEYS_A_QUERY):
            part = keys[start : start + _KEYS_A_QUERY]
            marks = ",".join("?" * len(part))
            rows = self._kept.select(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", part)
            if any(len(vector) % 4 for _, vector in rows):
                self._kept.set_aside("holds vectors that are cut")
                return {}
            found.update({key: np.frombuffer(vector, np.float32) for key, vector in rows})
        if any(not np.isfinite(vector).all() or abs(vector @ vector - 1) > 1e-3 for vector in found.values()):
            self._kept.set_aside("holds vectors that are not of length one")
            return {}
        return found
