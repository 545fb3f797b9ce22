"""Count words: one definition for answer limits, corpus checks, statistics and reports."""

__all__ = ["words"]

import re

# Chinese and Japanese write no spaces between words, so each of their characters counts as a word.
_CJK = "\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_LETTERS = rf"[^\W_{_CJK}]+"
_INSIDE_WORD = r"['’.&‑-]"  # don't, p.m., A&E, well-known
_INSIDE_NUMBER = r"(?<=\d)[,:/](?=\d)"  # 1,000, 20:15, 24/7
_WORD = re.compile(rf"[{_CJK}]|{_LETTERS}(?:(?:{_INSIDE_WORD}|{_INSIDE_NUMBER}){_LETTERS})*")


def words(text: str) -> list[str]:
    """Split a text into lower-case words; a word has at least one letter or digit.

    Args:
        text: in any language; each Chinese or Japanese character is a word.

    Returns:
        The words in order. Dashes between spaces, emoji and punctuation are not words.

    """
    return [word.lower() for word in _WORD.findall(text)]
