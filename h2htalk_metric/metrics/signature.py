"""The signature: every choice that changes a number, stored as a mapping, shown as one line (as in sacreBLEU)."""

__all__ = ["lexical_rules", "make_signature", "signature_line"]

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

from h2htalk_metric.metrics.similarity import Embedder
from h2htalk_metric.metrics.tokenizers import tokenizer_name

_LIBRARIES = {"en": ("sacrebleu", "rouge-score"), "zh": ("jieba",)}


def make_signature(*, embedder: Embedder, languages: Iterable[str], n: int) -> dict[str, Any]:
    """Signature of a composite score.

    Args:
        embedder: that computed SS.
        languages: of the items.
        n: number of items.

    """
    distinct = sorted(set(languages))
    libraries = {library for language in distinct for library in _LIBRARIES[language]} | set(embedder.libraries)
    return {
        "h2htalk": _version("h2htalk"),
        **lexical_rules(distinct),
        "libraries": {library: _version(library) for library in sorted(libraries, key=str.lower)},
        "embedder": embedder.name,
        "embedder_revision": embedder.revision,
        "embedder_precision": embedder.precision,
        "embedder_max_tokens": embedder.max_tokens,
        "n": n,
    }


def lexical_rules(languages: Iterable[str]) -> dict[str, Any]:
    """The part of the signature that fixes BLEU and ROUGE: variants, and tokenizers by language."""
    return {
        "bleu": "sentence,method1,cumulative",
        "rouge": "f1,no-stemmer",
        "tokenizers": {language: tokenizer_name(language) for language in sorted(set(languages))},
    }


def signature_line(signature: Mapping[str, Any]) -> str:
    """The signature as one line: ``key:value`` joined by ``|``."""
    return "|".join(f"{key}:{_value(value)}" for key, value in signature.items())


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_value(part)}" for key, part in value.items())
    return "none" if value is None else str(value)


@cache
def _version(library: str) -> str:
    """Installed version; each look-up reads files, so it is cached."""
    return version(library)
