"""The signature: every choice that changes a number, stored as a mapping, shown as one line (sacreBLEU's habit)."""

__all__ = ["make_signature", "signature_line"]

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

from h2htalk_metric.metrics.tokenizers import TOKENIZERS

_LIBRARIES = {"en": ("sacrebleu", "rouge-score"), "zh": ("jieba",)}


def make_signature(
    *,
    embedder: str | None,
    languages: Iterable[str],
    n: int,
    embedder_revision: str | None = None,
    embedder_precision: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Put the signature of a result together.

    Args:
        embedder: its name, or None where no embeddings were used.
        embedder_revision: of its weights; None where it is not known, as for a folder.
        embedder_precision: of its weights as loaded, as ``float32``.
        languages: of the items.
        n: number of items.
        more: dataset fingerprint, seed and whatever else the caller's figures depend on.

    """
    known = sorted(set(languages))
    libraries = sorted({library for language in known for library in _LIBRARIES[language]})
    return {
        "h2htalk": version("h2htalk"),
        "bleu": "sentence,method1,cumulative",
        "rouge": "f1,no-stemmer",
        "tokenizers": {language: TOKENIZERS[language] for language in known},
        "libraries": {library: version(library) for library in libraries},
        "embedder": embedder,
        "embedder_revision": embedder_revision,
        "embedder_precision": embedder_precision,
        "n": n,
        **more,
    }


def signature_line(signature: Mapping[str, Any]) -> str:
    """The signature as one line: ``key:value`` joined by ``|``."""
    return "|".join(f"{key}:{_value(value)}" for key, value in signature.items())


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_value(part)}" for key, part in value.items())
    return "none" if value is None else str(value)
