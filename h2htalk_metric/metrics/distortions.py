"""Answers made worse in known ways, to see which faults S and the fact check notice."""

__all__ = ["CONSTANTS", "DISTORTIONS", "another_reference", "constant", "echo", "falsified", "first_half"]

import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from h2htalk_metric.metrics.facts import DAYS, NUMBER_WORDS, facts_of

_ENGLISH = {
    "DialogueBase": "I see. Tell me a little more about it, and then let's look at it together when you have a moment.",
    "DialogueEmotion": "I am so sorry, that is a lot to carry. I'm staying right here with you. Do you want to tell "
    "me more about what happened, or shall we just sit with it for a while?",
    "DialogueSchedule": "I'm in the middle of something just now, but I'll be free a bit later today. Can it wait "
    "until then?",
    "RecollectionSynthesis": "No key information extracted.",
    "RecollectionRefinement": "My friend told me something important today, and I want to remember it.",
    "RecollectionInitialization": "Good morning! I was thinking of you just now, and of what you told me the other "
    "day. How are things with you?",
    "ItineraryBasic": "In the morning they meet at home and have coffee together. They go for a long walk, talking "
    "about everything, and stop for lunch in a small place they both like. In the afternoon they spend some time on "
    "the things they love. In the evening they cook, laugh about the day, and say good night.",
    "ItineraryMiddle": "07:00 Wake up and have breakfast\n09:00 Work\n12:30 Lunch\n14:00 Work\n18:00 Supper\n"
    "20:00 Read\n22:30 Sleep",
    "ItineraryAdvanced": "1. 09:00 She gets everything ready.\n2. 09:20 She begins with the first part.\n"
    "3. 10:00 She carries on and takes a short break.\n4. 10:30 She finishes and puts her things away.",
    "ItineraryResponse": "You're right about that, and I'm glad you came by, so stay a moment.",
    "ItineraryInitialization": "Hello! I'm busy with my day here and have a few plans for later. I wondered what you "
    "are up to. Would you like to hear about it?",
}
_CHINESE = {
    "DialogueBase": "嗯，我听见了。你慢慢讲，等有空我们一起看看怎么办。",
    "DialogueEmotion": "这么多事压在心里，难受得很吧。我不走开，你想说就说，不想说就这么待一会儿也好。到底出了什么事？",
    "DialogueSchedule": "我手头正忙着，等会儿就有空了。你急不急？不急的话晚点慢慢说。",
    "RecollectionSynthesis": "没有可提取的关键信息。",
    "RecollectionRefinement": "朋友今天跟我说了一件要紧的事，我想记住。",
    "RecollectionInitialization": "早上好！刚才忽然想起你前几天跟我说的那件事，现在怎么样了？",
    "ItineraryBasic": "早上两个人碰头，一起吃早饭。然后出门走走，边走边聊，中午在常去的小店吃饭。"
    "下午做点两个人都喜欢的事，晚上一起做饭，说说一天里好笑的事，再互道晚安。",
    "ItineraryMiddle": "07:00 起床吃早饭\n09:00 上班\n12:00 吃午饭\n14:00 接着上班\n18:00 吃晚饭\n"
    "20:00 看书\n22:30 睡觉",
    "ItineraryAdvanced": "1. 09:00 把东西准备好。\n2. 09:20 开始做第一步。\n3. 10:00 接着做，中间歇一会儿。\n"
    "4. 10:30 做完，收拾干净。",
    "ItineraryResponse": "你说得对，你来了我真高兴，多待一会儿。",
    "ItineraryInitialization": "你好呀！我这边正忙着，后面还有些安排。想知道你在做什么，要不要听我说说？",
}
CONSTANTS = {"en": _ENGLISH, "zh": _CHINESE}
"""A decent answer per language and config that fits every record of it."""

_TAIL = (
    " I'm always here for you, whatever happens. You are doing so much better than you think, and I'm really proud of "
    "you. Take good care of yourself, and tell me everything whenever you like."
)
_OTHER_NAMES = ("Bertram", "Odalys", "Wendeline", "Casimir", "Philippa", "Rosalind", "Leopold", "Henrike")
_HOURS_LATER, _NUMBER_SHIFT = 5, 7


def falsified(answer: str, record: Mapping[str, Any]) -> str | None:
    """The answer with every name, clock time, weekday and number replaced by another one; None if it has none.

    The name of the companion stays, since an answer that signs with another name would be another speaker. "One" stays,
    since it is rarely a fact.
    """
    facts, text = facts_of(answer), answer
    names = [written for name, written in facts.name.items() if name != record["companion"].lower()]
    for place, name in enumerate(names):
        text = re.sub(rf"\b{re.escape(name)}\b", _OTHER_NAMES[place % len(_OTHER_NAMES)], text)
    text = re.sub(r"\b\d{1,2}(?=[:.][0-5]\d\b)", lambda m: f"{(int(m[0]) + _HOURS_LATER) % 24:02d}", text)
    text = re.sub(r"(?<![\d:.,])\d[\d,]*(?![\d:.,]*[:.]\d)", _other_number, text)
    text = re.sub(rf"\b(?:{'|'.join(NUMBER_WORDS[1:])})\b", _other_word, text, flags=re.IGNORECASE)
    text = re.sub(rf"\b(?:{'|'.join(DAYS)})\b", _other_day, text, flags=re.IGNORECASE)
    return text if text != answer else None


def another_reference(record: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> str:
    """The reference of another record of the same config, from another relationship; the choice depends on the id."""
    others = [
        other
        for other in records
        if other["task"] == record["task"] and other["relationship"] != record["relationship"]
    ]
    return random.Random(f"another {record['id']}").choice(others)["reference"]


def _padded(answer: str, record: Mapping[str, Any]) -> str:
    return answer + _TAIL


def first_half(answer: str, record: Mapping[str, Any]) -> str | None:
    """The first half of the words of an answer, in Chinese of its characters; None if it has only one."""
    if record["language"] == "zh":
        return answer[: len(answer) // 2] or None
    words = answer.split(" ")
    return " ".join(words[: len(words) // 2]) or None


def echo(answer: str, record: Mapping[str, Any]) -> str:
    """What was said or given last, said back."""
    if record["history"]:
        return record["history"][-1]["content"]
    if record["memories"]:
        return record["memories"][-1]["content"]
    return record["instruction"] or "\n".join(f"{entry['time']} {entry['activity']}" for entry in record["schedule"])


def constant(answer: str, record: Mapping[str, Any]) -> str:
    """The same decent answer for every record of a config."""
    return CONSTANTS[record["language"]][record["task"]]


DISTORTIONS: dict[str, Callable[[str, Mapping[str, Any]], str | None]] = {
    "falsified facts": falsified,
    "generic warm tail": _padded,
    "first half": first_half,
    "echo": echo,
    "constant": constant,
}
"""Name to a function from a good answer and its record to a worse one; None where it does not apply."""


def _other_number(match: re.Match[str]) -> str:
    return str(int(match[0].replace(",", "")) + _NUMBER_SHIFT)


def _other_word(match: re.Match[str]) -> str:
    word = match[0].lower()
    words = NUMBER_WORDS[1:]
    other = words[(words.index(word) + _HOURS_LATER) % len(words)]
    return other.capitalize() if match[0][0].isupper() else other


def _other_day(match: re.Match[str]) -> str:
    return DAYS[(DAYS.index(match[0].lower()) + 2) % len(DAYS)].capitalize()
