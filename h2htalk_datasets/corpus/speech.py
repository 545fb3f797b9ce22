"""The checks of how English companions speak: feelings, questions, commands, names, and phrases of their own."""

__all__ = ["FEELINGS", "check_speech", "commands", "is_content_word"]

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from h2htalk_datasets.answer_format import strip_scaffold
from h2htalk_datasets.corpus.check import Check, share, worst_file
from h2htalk_datasets.corpus.sources import load_cast
from h2htalk_datasets.files import parse_yaml
from h2htalk_datasets.schema import Record
from h2htalk_datasets.words import words

FEELINGS = (
    "sadness loneliness anxiety anger exhaustion grief guilt shame fear hurt hopelessness overwhelm homesickness "
    "jealousy disappointment"
).split()
"""The emotions over which DialogueEmotion is spread."""

_SPOKEN = ("DialogueBase", "DialogueEmotion", "DialogueSchedule", "ItineraryResponse")
_WITH_POINTS = (*_SPOKEN, "RecollectionInitialization", "ItineraryInitialization")
_RECORDS_PER_EMOTION = 5
_LEXICON_FILE = Path(__file__).with_name("speech.yaml")
_PHRASE_LENGTH, _CONTENT_WORDS = 4, 2
_SENTENCE = re.compile(r"(?<=[.!?…:;])\s+|\)\s*|, (?:then|and|so) ")


def check_speech(records: Sequence[Record], *, partial: bool) -> list[Check]:
    """The checks of spoken references, per relationship and over the corpus.

    Args:
        records: English records of one or more relationships.
        partial: whether there may be fewer than all fifty relationships.

    """
    spoken = [record for record in records if record.task in _SPOKEN]
    emotion = [record for record in records if record.task == "DialogueEmotion"]
    return [
        _check_emotions(emotion, partial=partial),
        Check.no_offenders("DialogueEmotion: a feeling word in every reference", _without_feeling(emotion)),
        Check.no_offenders("DialogueEmotion: histories of 3 to 9 turns", _short_or_long(emotion)),
        Check.no_offenders("content points of every spoken reference and first message", _without_points(records)),
        worst_file("spoken: has a command, worst file", spoken, 0.345, lambda r: bool(commands(r.reference))),
        worst_file("spoken: has a question, worst file", spoken, 0.25, lambda r: "?" in r.reference, at_least=True),
        Check("spoken: more than two names", share(spoken, lambda r: _num_names(r) > 2), 0.03),
        Check.no_offenders("no distinctive phrase in two relationships", _shared_phrases(records)),
    ]


def commands(text: str) -> list[str]:
    """The sentences of a reply that begin with an imperative, roughly: by a list of verbs, without questions."""
    lexicon = _lexicon()
    result = []
    for sentence in _SENTENCE.split(text):
        tokens = words(sentence)
        while tokens and tokens[0] in lexicon["fillers"]:
            tokens = tokens[1:]
        if tokens and tokens[0].replace("’", "'") in lexicon["imperatives"] and "?" not in sentence:
            result.append(sentence.strip())
    return result


def is_content_word(word: str) -> bool:
    """Whether a word says what a phrase is about; words of grammar, clock times and small numbers do not."""
    return word.replace("’", "'") not in _lexicon()["function_words"] and not word[0].isdigit()


def _check_emotions(records: Sequence[Record], *, partial: bool) -> Check:
    counts = Counter(record.emotion for record in records)
    offenders = [f"{record.id}: {record.emotion}" for record in records if record.emotion not in FEELINGS]
    if not partial:
        few = [emotion for emotion in FEELINGS if counts[emotion] < _RECORDS_PER_EMOTION]
        offenders += [f"{emotion}: {counts[emotion]} records, at least {_RECORDS_PER_EMOTION}" for emotion in few]
    return Check.no_offenders("DialogueEmotion: spread over fifteen emotions", offenders)


def _without_feeling(records: Iterable[Record]) -> list[str]:
    stems = re.compile(rf"\b(?:{'|'.join(_lexicon()['feeling_stems'])})", re.IGNORECASE)
    return [f"{record.relationship}: {record.id}" for record in records if not stems.search(record.reference)]


def _short_or_long(records: Iterable[Record]) -> list[str]:
    return [f"{record.id}: {len(record.history)} turns" for record in records if not 3 <= len(record.history) <= 9]


def _without_points(records: Iterable[Record]) -> list[str]:
    return [f"{r.relationship}: {r.id}: no points" for r in records if r.task in _WITH_POINTS and not r.points]


def _num_names(record: Record) -> int:
    """Different names in a reference: words with a capital inside a sentence, two in a row as one."""
    return len(set(re.findall(r"(?<=[a-z,'’] )[A-Z]\w[\w'’-]*(?: [A-Z]\w[\w'’-]*)*", strip_scaffold(record.reference))))


def _shared_phrases(records: Iterable[Record]) -> list[str]:
    """Four words in a row, two of them content words, in references of two relationships."""
    where: Mapping[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for record in records:
        if not record.task.startswith("Recollection"):
            tokens = words(strip_scaffold(record.reference))
            for phrase in zip(*(tokens[start:] for start in range(_PHRASE_LENGTH)), strict=False):
                if sum(map(is_content_word, phrase)) >= _CONTENT_WORDS:
                    where[phrase].setdefault(record.relationship, record.id)
    honest_answers = [" ".join(words(row.honest)) for row in load_cast("en") if row.honest]
    allowed = [*_lexicon()["shared_phrases"], *honest_answers]
    return [
        f"{' '.join(phrase)!r} in {' and '.join(ids.values())}"
        for phrase, ids in where.items()
        if len(ids) > 1 and not any(" ".join(phrase) in text for text in allowed)
    ]


@cache
def _lexicon() -> dict[str, frozenset[str]]:
    """Lists of words by name; a list is a text of words, or a list of phrases."""
    entries = parse_yaml(_LEXICON_FILE.read_text("utf-8"))
    return {key: frozenset(value.split() if isinstance(value, str) else value) for key, value in entries.items()}
