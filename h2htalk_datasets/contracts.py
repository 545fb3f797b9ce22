"""Contracts: does an answer keep the form that its task asks for? Never part of a score, always beside it."""

__all__ = ["contract_fault"]

import re

from h2htalk_datasets.forms import parse_day, parse_memories, parse_steps
from h2htalk_datasets.records import Record, minute_of
from h2htalk_datasets.tasks import TASKS

# Answers are untrusted: a run of stops is tried once, from its first, and a line's own blanks only, so that both stay
# linear in the answer's length.
_SENTENCE_ENDS = re.compile(  # after which a blank, a quote's end or an emoji may come
    r"(?<![.!?…])[.!?…]+(?=\s|$|[\"'’”)*]|(?![–—…])[^\x00-\x7f\w])|[。！？]+"
)
_IDEOGRAPH = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")  # written without blanks; each counts as a word
_BETWEEN = re.compile(r"[()\u3000-\u303f\uff01-\uff0f\uff1a-\uff20]")  # brackets, and the signs of that writing
_LISTED = re.compile(r"^[^\S\n]*(?:[-*•]|\d+[.)])\s", re.MULTILINE)


def contract_fault(record: Record, text: str) -> str | None:
    """Say how an answer breaks its task's form, or None where it keeps it.

    Word limits hold where the task has one; ItineraryMiddle must parse as a day, ItineraryAdvanced as steps within its
    slot, RecollectionSynthesis as memories; ItineraryBasic is prose and ItineraryResponse one or two sentences.
    """
    if not text.strip():
        return "empty"
    return _too_long(record, text) or _malformed(record, text)


def _too_long(record: Record, text: str) -> str | None:
    limit = TASKS[record.task].word_limit
    count = len(_BETWEEN.sub(" ", _IDEOGRAPH.sub(" x ", text)).split())
    return f"{count} words, the limit is {limit}" if limit is not None and count > limit else None


def _malformed(record: Record, text: str) -> str | None:
    try:
        if record.task == "ItineraryMiddle":
            parse_day(text)
        elif record.task == "RecollectionSynthesis":
            parse_memories(text)
        elif record.task == "ItineraryAdvanced":
            here = next(place for place, entry in enumerate(record.schedule) if entry.current)
            after = record.schedule[here + 1 : here + 2]
            parse_steps(text, minute_of(record.schedule[here].time), minute_of(after[0].time) if after else None)
    except ValueError as error:
        return str(error)
    if record.task == "ItineraryResponse" and _sentences(text) > 2:
        return "more than two sentences"
    if record.task == "ItineraryBasic" and _LISTED.search(text):
        return "a list, not prose"
    return None


def _sentences(text: str) -> int:
    """How many sentences; the last one may end without a sign, as in messages."""
    ends = [found.end() for found in _SENTENCE_ENDS.finditer(text)]
    return len(ends) + bool(re.search(r"\w", text[ends[-1] if ends else 0 :]))
