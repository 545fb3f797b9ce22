"""The languages of the benchmark: everything that differs between them and is not a prompt."""

__all__ = ["LANGUAGES", "Language", "chinese_tokenizer", "is_sentinel", "language_of", "select_languages"]

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.words import words


@dataclass(frozen=True)
class Language:
    """One language of records, prompts and answers.

    Attributes:
        code: as in ids, folders and the option ``--language``.
        name: in English, for tables.
        native_name: in the language itself.
        unit: what limits of length count.
        count: number of units of a text.
        words: splits a text into words, without punctuation; for statistics and checks, not for S.
        sleep: the word that ends a day of ItineraryMiddle, lower case.
        memory_labels: the three labels of a memory, each with its colon.
        sentinel: the exact answer of RecollectionSynthesis to a conversation without lasting facts.
        categories: of memories, in the same order in every language.
        list_separator: between the items of a list in a prompt.

    """

    code: str
    name: str
    native_name: str
    unit: Literal["words", "characters"]
    count: Callable[[str], int]
    words: Callable[[str], list[str]]
    sleep: str
    memory_labels: tuple[str, str, str]
    sentinel: str
    categories: tuple[str, ...]
    list_separator: str

    @property
    def config_suffix(self) -> str:
        """What follows a task's name in the name of its dataset config: nothing in English, ``-zh`` in Chinese."""
        return "" if self.code == "en" else f"-{self.code}"


@cache
def chinese_tokenizer() -> Any:
    """Jieba with its own dictionary; words that a program adds to the default tokenizer do not change this one."""
    import jieba

    jieba.setLogLevel(logging.WARNING)
    return jieba.Tokenizer()


def _chinese_words(text: str) -> list[str]:
    return [token for token in chinese_tokenizer().lcut(text) if re.search(r"\w", token)]


def _num_characters(text: str) -> int:
    """Characters without white space; punctuation counts."""
    return len(re.sub(r"\s", "", text))


_ENGLISH = Language(
    code="en",
    name="English",
    native_name="English",
    unit="words",
    count=lambda text: len(words(text)),
    words=words,
    sleep="sleep",
    memory_labels=("Memory Content: ", "Memory Category: ", "Memory Importance: "),
    sentinel="No key information extracted.",
    categories=tuple(
        (
            "Name, Gender, Age, Location, Birthday, Zodiac Sign, Personality, MBTI, Emotional State, Occupation, "
            "Sleep Habits, Health Status, Mood, Relationships, Food, Entertainment, Travel, Fandom, Hobbies, "
            "Love Life, Studies, Work, Virtual Interaction, Other Events"
        ).split(", ")
    ),
    list_separator=", ",
)
_CHINESE = Language(
    code="zh",
    name="Chinese",
    native_name="中文",
    unit="characters",
    count=_num_characters,
    words=_chinese_words,
    sleep="睡",
    memory_labels=("记忆内容：", "记忆类别：", "记忆重要性："),
    sentinel="没有可提取的关键信息。",
    categories=tuple(
        (
            "姓名 性别 年龄 所在地 生日 星座 性格 MBTI 情绪状态 职业 睡眠习惯 健康状况 心情 人际关系 饮食 娱乐 旅行 "
            "追星 爱好 恋爱 学习 工作 线上互动 其他事件"
        ).split()
    ),
    list_separator="、",
)

LANGUAGES: dict[str, Language] = {language.code: language for language in (_ENGLISH, _CHINESE)}
"""The languages by code, in the order in which tables and runs list them."""

_SENTINEL_OF_THE_RELEASE = "未提取到关键信息。"  # of the references that the paper's authors published
_SENTINELS = {language.sentinel for language in LANGUAGES.values()} | {_SENTINEL_OF_THE_RELEASE}


def language_of(code: str) -> Language:
    """Return the language with a code.

    Raises:
        H2HTalkError: it is unknown; the message lists the codes.

    """
    if code not in LANGUAGES:
        raise H2HTalkError(f"unknown language {code!r}. The languages are: {', '.join(LANGUAGES)}")
    return LANGUAGES[code]


def select_languages(codes: str | Iterable[str] = "en") -> list[Language]:
    """Return the languages with these codes, in the table's order.

    Args:
        codes: one code, codes joined by commas, or an iterable of codes.

    Raises:
        H2HTalkError: a code is unknown, or there is none.

    """
    selected = [part.strip() for part in codes.split(",")] if isinstance(codes, str) else list(codes)
    chosen = {language_of(code).code for code in selected if code}
    if not chosen:
        raise H2HTalkError(f"no language named; give one or more of: {', '.join(LANGUAGES)}")
    return [language for language in LANGUAGES.values() if language.code in chosen]


def is_sentinel(text: str) -> bool:
    """Whether a RecollectionSynthesis answer says, in any language, that there is nothing to remember."""
    return text.strip() in _SENTINELS
