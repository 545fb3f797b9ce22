"""Split texts into tokens: English by 13a for BLEU and rouge-score's tokenizer for ROUGE, Chinese by jieba for both.

The language is given per item and never guessed.
"""

__all__ = ["LANGUAGES", "TOKENIZERS", "bleu_tokens", "clean", "rouge_tokens"]

import logging
from collections.abc import Callable
from functools import cache

from h2htalk_datasets.errors import H2HTalkError

LANGUAGES = ("en", "zh")

TOKENIZERS = {"en": "bleu:13a,rouge:rouge-score", "zh": "jieba"}
"""Tokenizers of each language, as the signature shows them."""


def bleu_tokens(text: str, language: str) -> list[str]:
    """Tokens for BLEU: sacreBLEU's 13a (case kept) for English, jieba without white space for Chinese."""
    return _tokenizer(language, "bleu")(text)


def rouge_tokens(text: str, language: str) -> list[str]:
    """Tokens for ROUGE: rouge-score's default tokenizer without stemming for English, jieba for Chinese."""
    return _tokenizer(language, "rouge")(text)


def clean(text: str) -> str:
    """Replace lone surrogates, which no tokenizer can encode, by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@cache
def _tokenizer(language: str, measure: str) -> Callable[[str], list[str]]:
    if language == "zh":
        import jieba

        jieba.setLogLevel(logging.WARNING)
        return lambda text: [token for token in jieba.lcut(text) if not token.isspace()]
    if language == "en" and measure == "bleu":
        from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

        tokenize = Tokenizer13a()
        return lambda text: tokenize(text).split()
    if language == "en":
        from rouge_score.tokenizers import DefaultTokenizer

        return DefaultTokenizer(use_stemmer=False).tokenize
    raise H2HTalkError(f"unknown language {language!r}; supported are: {', '.join(LANGUAGES)}")
