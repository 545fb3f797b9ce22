"""Statistics of a corpus: counts, lengths, labels, verb-noun pairs, distinct-n, and the checks of its references."""

__all__ = ["Statistics", "check_published", "measure", "verb_noun_pairs"]

import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import numpy as np

from h2htalk_datasets.answer_format import strip_scaffold
from h2htalk_datasets.authors_release import authors_release
from h2htalk_datasets.corpus.checks import Check, check_references, distinct
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.words import words

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
Pairs = Counter[tuple[str, str]]

_NOUN_DISTANCE = 4  # words after a verb in which its noun is searched
_PUNCTUATION = set('.,;:!?…—–()"“”')
_IGNORED_VERBS = {"be", "have", "do", "go", "get", "will", "can", "s", "re", "ve", "ll", "d", "m", "let", "please"}
# What the tagger calls nouns although they are pronouns or adverbs.
_NOT_NOUNS = set(
    "nothing anything something everything nobody anybody somebody everybody anyone someone everyone home round".split()
)
# Past forms that are lemmas of other words, too, so the lemmatizer keeps them.
_INFINITIVES = {"left": "leave", "felt": "feel", "thought": "think", "rose": "rise", "shook": "shake"}
_BEFORE_NOUN = ("DT", "PRP$", "POS", "JJ", "JJR", "CD")
_BEFORE_VERB = set("i you he she we they who have has had ve d".split())


@dataclass(frozen=True)
class Statistics:
    """The statistics of a corpus, by task unless stated otherwise.

    Attributes:
        counts: number of records.
        reference_words: words of each reference without scaffold, shape (records,).
        prompt_words: words of each user message (the record's own part of the prompt), shape (records,).
        system_words: median over all records of the words of the system message.
        labels: label (difficulty, need, emotion) to task to counts of its values.
        instruction_pairs: verb-noun pairs of all instructions (paper, Fig. 5) with their counts.
        reference_pairs: verb-noun pairs of all references with their counts.
        checks: the checks of the references.
        distinct: distinct-1, -2 and -3 of the references, 0..1.

    """

    counts: dict[str, int]
    reference_words: dict[str, np.ndarray]
    prompt_words: dict[str, np.ndarray]
    system_words: float
    labels: dict[str, dict[str, Counter[Any]]]
    instruction_pairs: Pairs
    reference_pairs: Pairs
    checks: list[Check]
    distinct: dict[str, tuple[float, float, float]]


def measure(rows: Rows) -> Statistics:
    """Measure loaded records; `rows` maps task names to their records."""
    references = {task: [row["reference"] for row in rows[task]] for task in rows}
    bare = {task: [strip_scaffold(text) for text in texts] for task, texts in references.items()}
    everything = [row for task in rows for row in rows[task]]
    messages = {task: [[m["content"] for m in row["messages"]] for row in rows[task]] for task in rows}
    return Statistics(
        counts={task: len(rows[task]) for task in rows},
        reference_words={task: _lengths(texts) for task, texts in bare.items()},
        prompt_words={task: _lengths(user for _, user in pairs) for task, pairs in messages.items()},
        system_words=float(np.median(_lengths(system for pairs in messages.values() for system, _ in pairs))),
        labels={
            label: {task: Counter(row[label] for row in rows[task] if row[label] is not None) for task in rows}
            for label in ("difficulty", "need", "emotion")
        },
        instruction_pairs=verb_noun_pairs(_instruction(row) for row in everything),
        reference_pairs=verb_noun_pairs(text for texts in bare.values() for text in texts),
        checks=check_references(references),
        distinct={
            task: (distinct(texts, 1), distinct(texts, 2), distinct(texts, 3)) for task, texts in references.items()
        },
    )


def check_published(folder: Path) -> list[Check]:
    """Run the same checks over the published references (Chinese, split into words by jieba)."""
    import jieba

    jieba.setLogLevel(logging.WARNING)
    references = {task: list(data["reference"]) for task, data in authors_release(folder).configs.items()}
    checks = check_references(references, lambda text: [t for t in jieba.lcut(text) if re.search(r"\w", t)])
    return [check for check in checks if check.rule != "stock phrases"]  # that list is English


def verb_noun_pairs(texts: Iterable[str]) -> Pairs:
    """Count verbs with the noun that follows within four words of the same clause, both as lemmas (English only).

    Tags are from TextBlob's PatternTagger, lemmas from simplemma; both packages contain their data.

    Raises:
        H2HTalkError: one of the packages is not installed.

    """
    try:
        import simplemma
        from textblob.taggers import PatternTagger
    except ImportError:
        raise H2HTalkError("the figures need more libraries; run: pip install 'h2htalk[figures]'") from None

    tagger = PatternTagger()
    pairs: Pairs = Counter()
    for text in texts:
        tagged = tagger.tag(text)
        for index, (word, _) in enumerate(tagged):
            if not _is_verb(tagged, index):
                continue
            verb = _INFINITIVES.get(word.lower()) or simplemma.lemmatize(word.lower(), lang="en")
            following = takewhile(lambda token: token[0] not in _PUNCTUATION, tagged[index + 1 :])
            noun = next((w.lower() for w, tag in islice(following, _NOUN_DISTANCE) if tag in ("NN", "NNS")), "")
            if verb not in _IGNORED_VERBS and noun.isalpha() and len(noun) > 2 and noun not in _NOT_NOUNS:
                pairs[verb, simplemma.lemmatize(noun, lang="en")] += 1
    return pairs


def _is_verb(tagged: Sequence[tuple[str, str]], index: int) -> bool:
    """Whether a word is used as a verb; the tagger also tags adjectives like "left" in "her left hand" as verbs."""
    word, tag = tagged[index]
    if not tag.startswith("VB") or not word.isalpha():
        return False
    word_before, tag_before = tagged[index - 1] if index else ("", "")
    if tag_before in _BEFORE_NOUN:
        return False
    _, tag_after = tagged[index + 1] if index + 1 < len(tagged) else ("", "")
    if tag == "VBN" and tag_after in ("NN", "NNS"):
        return word_before.lower() in _BEFORE_VERB or tag_before == "NNP"
    return True


def _instruction(row: Mapping[str, Any]) -> str:
    """What a record asks for: the user's turns, and the `instruction` column."""
    turns = [turn["content"] for turn in row["history"] if turn["role"] == "user"]
    return "\n".join([*turns, row["instruction"] or ""])


def _lengths(texts: Iterable[str]) -> np.ndarray:
    return np.array([len(words(text)) for text in texts])
