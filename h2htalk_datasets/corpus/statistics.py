"""Statistics of a corpus: counts, lengths, labels, verb-noun pairs, distinct-n, and the checks of its references."""

__all__ = ["Statistics", "check_published", "measure", "verb_noun_pairs"]

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import pandas as pd

from h2htalk_datasets.answer_format import strip_scaffold
from h2htalk_datasets.authors_release import authors_release
from h2htalk_datasets.corpus.check import Check
from h2htalk_datasets.corpus.checks import check_references, distinct
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.languages import LANGUAGES
from h2htalk_datasets.tasks import TASKS

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
    """The statistics of a corpus.

    Attributes:
        language: code of the language of all records.
        records: one row per record, with task, difficulty, need, emotion, and the numbers of words or characters:
            prompt_length (of the user message), system_length (of the system message), reference_length (of the
            reference without scaffold).
        distinct: task to distinct-1, -2 and -3 of its references, 0..1.
        instruction_pairs: verb-noun pairs of all instructions (paper, Fig. 5) with their counts; English only.
        reference_pairs: verb-noun pairs of all references with their counts; English only.
        checks: the checks of the references.

    """

    language: str
    records: pd.DataFrame
    distinct: dict[str, list[float]]
    instruction_pairs: Pairs
    reference_pairs: Pairs
    checks: list[Check]


def measure(rows: Sequence[Mapping[str, Any]]) -> Statistics:
    """Measure the records of a corpus.

    Args:
        rows: records of one language as loaded, task by task.

    """
    language = LANGUAGES[rows[0]["language"]]
    bare = [strip_scaffold(row["reference"]) for row in rows]
    labels = ("task", "difficulty", "need", "emotion")
    records = pd.DataFrame([{label: row[label] for label in labels} for row in rows])
    records["task"] = pd.Categorical(records["task"], [task for task in TASKS if task in set(records["task"])])
    for index, name in enumerate(("system_length", "prompt_length")):
        records[name] = [language.count(row["messages"][index]["content"]) for row in rows]
    records["reference_length"] = [language.count(text) for text in bare]
    references: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        references[row["task"]].append(row["reference"])
    has_pairs = language.code == "en"
    return Statistics(
        language=language.code,
        records=records,
        distinct={task: [distinct(texts, n, language.words) for n in (1, 2, 3)] for task, texts in references.items()},
        instruction_pairs=verb_noun_pairs(_instruction(row) for row in rows) if has_pairs else Counter(),
        reference_pairs=verb_noun_pairs(bare) if has_pairs else Counter(),
        checks=check_references(references, language.code),
    )


def check_published(folder: Path) -> list[Check]:
    """Run the same checks over the published references, which are Chinese."""
    references = {task: list(data["reference"]) for task, data in authors_release(folder).configs.items()}
    return check_references(references, "zh")


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
