"""Split texts into tokens: English by 13a for BLEU and rouge-score's tokenizer for ROUGE, Chinese by jieba for both.

Before Chinese is cut, full-width digits, letters and punctuation become half-width, because people type both.
The language is given per item and never guessed.
"""

__all__ = ["bleu_tokens", "characters", "clean", "rouge_tokens", "tokenizer_name"]

import hashlib
from collections.abc import Callable
from functools import cache

from h2htalk_datasets.languages import chinese_tokenizer, language_of

_HALF_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}


@cache
def tokenizer_name(language: str) -> str:
    """Tokenizers of a language, as the signature shows them; jieba's cut depends on its dictionary.

    Raises:
        H2HTalkError: the language is unknown.

    """
    if language_of(language).code == "en":
        return "bleu:13a,rouge:rouge-score"
    with chinese_tokenizer().get_dict_file() as dictionary:
        return f"jieba,half-width,dictionary:{hashlib.sha256(dictionary.read()).hexdigest()[:12]}"


def bleu_tokens(text: str, language: str) -> list[str]:
    """Tokens for BLEU: sacreBLEU's 13a (case kept) for English, jieba without white space for Chinese."""
    return _tokenizer(language, "bleu")(text)


def rouge_tokens(text: str, language: str) -> list[str]:
    """Tokens for ROUGE: rouge-score's default tokenizer without stemming for English, jieba for Chinese."""
    return _tokenizer(language, "rouge")(text)


def characters(text: str) -> list[str]:
    """The characters of a text without white space: other tokens of Chinese, for a figure next to S."""
    return [character for character in _half_width(text).replace("。", ".") if not character.isspace()]


def clean(text: str) -> str:
    """Replace lone surrogates, which no tokenizer can encode, by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _chinese_tokens(text: str) -> list[str]:
    tokens = chinese_tokenizer().lcut(_half_width(text))
    return ["." if token == "。" else token for token in tokens if not token.isspace()]


def _half_width(text: str) -> str:
    return text.translate(_HALF_WIDTH)


@cache
def _tokenizer(language: str, measure: str) -> Callable[[str], list[str]]:
    if language_of(language).code == "zh":
        return _chinese_tokens
    if measure == "bleu":
        from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

        tokenize = Tokenizer13a()
        return lambda text: tokenize(text).split()
    from rouge_score.tokenizers import DefaultTokenizer

    return DefaultTokenizer(use_stemmer=False).tokenize
