"""Decide without a judge whether an answer to a memory question is right."""

__all__ = ["VERDICTS", "verdict"]

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from h2htalk_datasets.memory.patterns import SENTENCE_END, contains, normalize

VERDICTS = ("right", "wrong", "stale", "invented", "abstained", "evaded")
"""right; wrong (another value); stale (an old value); invented (never said); abstained; evaded (nothing claimed)."""

ABSTENTION = (
    "not told me", "havent told", "never told", "didnt tell", "did not tell", "you dont tell", "nobody told me",
    "no one told me", "nobody ever", "dont think you ... told", "dont think you ... said",
    "dont think you ... mentioned", "dont believe you ... told", "dont believe you ... said", "you never ... told",
    "you never ... said", "you never ... mentioned", "you never ... gave", "you never ... name",
    "you didnt ... say", "you didnt ... tell", "you didnt ... mention", "you havent ... told",
    "you havent ... said", "never once", "you only told", "you only said", "not said", "havent said", "never said",
    "didnt say", "did not say", "hasnt said", "you dont say", "you never did say", "not mentioned",
    "havent mentioned", "never mentioned", "didnt mention", "did not mention", "hasnt come up", "never came up",
    "never came to me", "never came my way", "never came through", "never reached me", "never reached my",
    "havent heard", "never heard", "didnt hear", "not heard", "never gave me", "havent given", "never named",
    "not named", "didnt pass on", "did not pass on", "never passed on", "kept from me", "kept that",
    "left that out", "left out", "not 1 word", "not a word", "nothing about that", "nothing of that",
    "nothing of it", "you told me nothing", "blank", "i dont know", "i do not know", "dont actually know",
    "dont really know", "i wouldnt know", "no idea", "not know", "dont remember", "cant remember", "dont recall",
    "cant recall", "no memory", "no record", "not sure", "i couldnt say", "i cant say", "cant tell you",
    "remind me", "dont have that", "have no name", "without a name", "crossed your lips", "passed your lips",
    "hasnt reached me", "hasnt reached my", "not reached me", "never made it to me", "never got as far as",
    "never crossed", "kept to yourself", "kept it to yourself", "keep it to yourself", "left it open", "left open",
    "left it dark", "left off", "ever told", "ever said", "ever mentioned", "ever gave", "ever come up",
    "ever came up", "been told", "wasnt told", "not told", "isnt in there", "not in there", "come up between",
    "a mystery", "unnamed", "not her name", "not his name", "not what he called", "not what she called",
    "not the name", "gap in my", "hole in my", "drawer ... empty", "heard ... from you", "not with me", "a page you",
    "never dropped", "i never got", "i dont believe i ever", "not who he", "not who she", "out of my head",
    "slipped my mind", "escapes me", "anywhere in my head", "i dont have it", "dont have the name", "dont have a name",
    "dont have her name", "dont have his name", "dont have its name", "dont have the number", "havent got it",
    "havent got the name", "havent got a name", "havent got her", "havent got his", "hasnt got a name",
    "name i havent", "be guessing", "wont guess", "not guess", "dont want to guess", "isnt in anything",
    "not in anything", "doesnt include", "told me only", "never brought it", "never had off you", "never had from you",
    "never passed between", "never came across",
)  # fmt: skip
"""How a companion says in English that it does not know."""

HINTS = (
    "tell you himself", "tell you herself", "tell you themselves", "tell you that himself", "tell you that herself",
    "ask him yourself", "ask her yourself", "ask him about that", "ask her about that", "more than that i",
    "more im not saying", "rest is not mine", "rest isnt mine", "not mine to tell", "isnt mine to tell",
    "not mine to say", "isnt mine to say", "not for me to say", "isnt for me to say", "not for me to tell",
    "isnt for me to tell", "the rest he", "the rest she", "the rest they", "when hes ready", "when shes ready",
    "when he ready", "when she ready", "wouldnt want me to", "promised not to", "promised i wouldnt",
    "sworn to", "keep that 1 to", "cant say more", "cant tell you more", "mustnt say", "not allowed to say",
    "another little appointment", "something else i", "for the 2 of them to talk", "when there something to tell",
    "other thing he", "other thing she", "had a difficult", "having a difficult", "going through something",
)  # fmt: skip
"""How a companion gives away in English that there is something it does not say."""

# A form next to one of these words is named as what does not hold.
_DENIED_BEFORE = tuple(
    "not no never neither nor nobody none without isnt wasnt wont doesnt didnt dont havent hasnt cant couldnt arent "
    "instead rather longer".split()
)
_DENIED_AFTER = ("anymore", "any more", "is off", "fell through", "was cancelled", "no longer")
# An answer with the value that holds may name the old one too, if it has a sign of the change.
_CHANGE = frozenset(
    "not no never instead rather longer anymore from was were used originally earlier before first old changed change "
    "moved now new asked asking wanted want said had since became turned ended fell cancelled switched "
    "swapped postponed isnt wasnt arent dont doesnt only but should would put pushed shifted".split()
)
# An answer without a value that has one of these words says that something is missing.
_ABSENT = frozenset(
    "not no never neither nor nobody none nothing nowhere without didnt havent hasnt hadnt cant couldnt kept left "
    "missing empty mystery".split()
)
_ABOUT_US = frozenset("i ive im id you youve your me my we us our name".split())  # a sentence about what the two know
_IDLE = ("no doubt", "no problem", "no worry", "no worries", "no need", "no hurry", "no trouble", "why not", "not bad")
_DOUBT_WORDS = frozenset("maybe perhaps probably".split())
_WEAK_GUESSES = ("id say", "id put", "put money", "wasnt it", "isnt it", "wouldnt it")  # often next to a guessed value
_STRONG_GUESSES = ("if i had to", "my guess", "best guess", "id guess", "id go for")
_VALUE_FAMILIES = ("recall", "update", "order", "join", "contradiction")  # a right answer is one value, not a choice
_CHOICES = (
    "1 of those 2",
    "1 of the 2",
    "which of the 2",
    "which 1 count",
    "which 1 hold",
    "not sure which",
    "could be ... could be",
)
_DAYS = frozenset("monday tuesday wednesday thursday friday saturday sunday".split())
_REACH = 3  # tokens between a value and the "or" of a choice
_SHORT = 80  # tokens of an answer that can deny something as a whole
_WINDOW = 5  # tokens before a form that are searched


def verdict(question: Mapping[str, Any], answer: str, names: Iterable[str] = (), sessions: Iterable[str] = ()) -> str:
    """Judge an answer by the forms of its question.

    Args:
        question: family, message, accept, stale, reject and abstain, as in :class:`memory.schema.Question`.
        answer: of the companion.
        names: of companion and user; they are not values.
        sessions: what was said before the question. Where a fact was never said, names and numbers from there are not
            invented, and an answer that denies something and names no others abstains.

    Returns:
        One of :data:`VERDICTS`.

    """
    tokens, family = normalize(answer), question["family"]
    abstains = any(contains(tokens, form) for form in (*question["abstain"], *ABSTENTION))
    groups = [any(contains(tokens, form) for form in group) for group in question["accept"]]
    accepted = bool(groups) and all(groups)
    if family == "discretion":  # to say it at all is wrong, even in order to deny it
        rejected, stale = any(contains(tokens, form) for form in (*question["reject"], *HINTS)), False
    else:
        rejected, stale = (any(_claims(tokens, form) for form in question[key]) for key in ("reject", "stale"))
        stale = stale and not (accepted and _CHANGE.intersection(tokens))
    if rejected:
        return "invented" if family not in ("contradiction", "discretion") else "wrong"
    if stale:
        return "stale"
    if family == "abstention":
        return _verdict_on_abstention(abstains, tokens, answer, (question["message"], *names, *sessions))
    if accepted:
        return "evaded" if family in _VALUE_FAMILIES and _left_open(tokens, question["accept"]) else "right"
    if abstains:
        return "abstained"
    return "wrong" if any(groups) or _names_a_value(answer, (question["message"], *names)) else "evaded"


def _verdict_on_abstention(abstains: bool, tokens: Sequence[str], answer: str, known: Iterable[str]) -> str:
    guesses = any(contains(tokens, form) for form in _WEAK_GUESSES)
    if any(contains(tokens, form) for form in _STRONG_GUESSES):
        return "invented"
    if (not abstains or guesses or _DOUBT_WORDS.intersection(tokens)) and _names_a_value(answer, known):
        return "invented"
    if guesses and not abstains:
        return "evaded"
    return "right" if abstains or (len(tokens) <= _SHORT and _denies(tokens)) else "evaded"


def _denies(tokens: Sequence[str]) -> bool:
    """Whether a sentence about what the two know says that something is missing; "no doubt" and the like do not."""
    idle = {start + offset for form in _IDLE for start in contains(tokens, form) for offset in (0, 1)}
    kept = " ".join(token for place, token in enumerate(tokens) if place not in idle)
    sentences = [sentence.split() for sentence in kept.split(SENTENCE_END)]
    return any(_ABSENT.intersection(words) and _ABOUT_US.intersection(words) for words in sentences)


def _claims(tokens: Sequence[str], form: str) -> bool:
    """Whether a form occurs at least once without a word next to it that denies it."""
    length = len(normalize(form.replace("...", " ")))
    return not all(_denied(tokens, start, start + length) for start in contains(tokens, form))


def _denied(tokens: Sequence[str], start: int, end: int) -> bool:
    preceding = list(tokens[max(0, start - _WINDOW) : start])
    if SENTENCE_END in preceding:
        preceding = preceding[len(preceding) - preceding[::-1].index(SENTENCE_END) :]
    following = " ".join(tokens[end : end + 4]) + " "
    return any(word in preceding for word in _DENIED_BEFORE) or any(
        following.startswith(phrase + " ") for phrase in _DENIED_AFTER
    )


def _left_open(tokens: Sequence[str], groups: Iterable[Iterable[str]]) -> bool:
    """Whether an answer names a needed value only in a choice: "the 21st or the 28th", "57, or was it 75?"."""
    if any(contains(tokens, form) for form in _CHOICES):
        return True
    own = {token for group in groups for form in group for token in normalize(form)}
    for group in groups:
        sizes = {form: len(normalize(form.replace("...", " "))) for form in group}
        places = [(start, start + size) for form, size in sizes.items() for start in contains(tokens, form)]
        if all(_in_choice(tokens, start, end, own) for start, end in places):
            return True
    return False


def _in_choice(tokens: Sequence[str], start: int, end: int, own: set[str]) -> bool:
    before, after = _until_end(tokens[:start][::-1]), _until_end(tokens[end:])
    if "either" in before[: 2 * _REACH] and "or" in (*before[:_REACH], *after):
        return True
    if "or" in after[:_REACH]:
        other = after[after.index("or") + 1 :][:_REACH]
        doubt = other[:2] in (["was", "it"], ["is", "it"]) or other[:1] in (["else"], ["maybe"], ["perhaps"])
        return doubt or _other_value(other, own)
    return "or" in before[:_REACH] and _other_value(before[before.index("or") + 1 :][:_REACH], own)


def _until_end(tokens: Sequence[str]) -> list[str]:
    """The tokens up to the end of a sentence."""
    tokens = list(tokens)
    return tokens[: tokens.index(SENTENCE_END)] if SENTENCE_END in tokens else tokens


def _other_value(tokens: Iterable[str], own: Iterable[str]) -> bool:
    """Whether there is a number or a day that is not the form's own."""
    return any((token[0].isdigit() or token in _DAYS) and token not in own for token in tokens)


def _names_a_value(answer: str, known_texts: Iterable[str]) -> bool:
    """Whether an answer has a number, a time, a weekday or a name that other texts do not have."""
    known = {"1", *(token for text in known_texts for token in normalize(text))}  # "that one" is no number
    if _other_value(normalize(answer), known):
        return True
    inside = re.findall(r"(?<=[\w,;:'’] )[A-ZÀ-ÖØ-Þ][\w'’-]*\w", answer)  # a capital inside a sentence
    return any(not known.issuperset(normalize(word)) for word in inside)
