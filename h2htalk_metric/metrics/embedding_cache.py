"""Embeddings of references on disk: a second model is scored against the same references, so they are embedded once.

One file per embedder and revision, keyed by text. Predictions are never stored.
"""

__all__ = ["EmbeddingCache"]

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from h2htalk_datasets.files import cache_folder
from h2htalk_metric.cache import DiskCache


class EmbeddingCache:
    """Vectors by text for one embedder; a file with invalid vectors is logged, renamed and created again.

    Args:
        embedder: its name.
        revision: of its weights, and their precision; another revision has another file.
        folder: of the files; None: ``h2htalk/embeddings`` under ``HF_HOME``.

    """

    def __init__(self, embedder: str, revision: str, folder: Path | None = None) -> None:
        name = hashlib.sha256(f"{embedder}\0{revision}".encode()).hexdigest()[:16]
        self.file = (folder or cache_folder() / "embeddings") / f"{name}.sqlite"
        self._cache = DiskCache(self.file, "vectors")

    def encode(self, texts: Sequence[str], embed: Callable[[Sequence[str]], np.ndarray]) -> np.ndarray:
        """Embed texts, but only those that are not stored yet.

        Args:
            texts: any number, repeated ones too.
            embed: returns unit vectors of texts, float32 of shape (len(texts), dimension).

        Returns:
            Unit vectors, float32 of shape (len(texts), dimension).

        """
        keys = [hashlib.sha256(text.encode()).digest() for text in texts]
        vectors = self._read(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in vectors}
        if missing:
            new = dict(zip(missing, embed(list(missing.values())), strict=True))
            dimension = len(next(iter(new.values())))
            if any(len(vector) != dimension for vector in vectors.values()):
                self._cache.discard(f"has vectors of another dimension than {dimension}")
                return self.encode(texts, embed)
            self._cache.put({key: np.asarray(vector, np.float32).tobytes() for key, vector in new.items()})
            vectors |= new
        return np.stack([vectors[key] for key in keys])

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, np.ndarray]:
        stored = self._cache.get(keys)
        if any(len(value) % 4 for value in stored.values()):
            self._cache.discard("has truncated vectors")
            return {}
        vectors = {key: np.frombuffer(value, np.float32) for key, value in stored.items()}
        if any(not np.isfinite(vector).all() or abs(vector @ vector - 1) > 1e-3 for vector in vectors.values()):
            self._cache.discard("has vectors whose length is not one")
            return {}
        return vectors
