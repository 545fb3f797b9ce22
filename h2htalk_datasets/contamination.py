"""Which records a training file contains: word 13-grams of the file that are also in a record.

The measure is that of GPT-3's report (Brown et al. 2020, arXiv 2005.14165, appendix C): 13 consecutive words, in lower
case and without punctuation. It finds copies, and no paraphrases or translations.
"""

__all__ = ["NGRAM", "PARTS", "Contamination", "Overlap", "check_contamination", "texts_of_file"]

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.loading import records_of
from h2htalk_datasets.prompts import render
from h2htalk_datasets.tasks import TASKS
from h2htalk_datasets.words import words

NGRAM = 13
"""Number of consecutive words; in Chinese each character counts as a word."""
PARTS = ("prompt", "reference")
"""What is checked of a record: its own part of the prompt, and each of its references."""
_SEVERAL = ""  # in place of a relationship: an n-gram that several have is wording of the templates


@dataclass(frozen=True)
class Overlap:
    """A part of a record that shares words with the training texts.

    Attributes:
        id: of the record.
        task: its config.
        part: ``prompt``, the record's own part without persona and task, or ``reference``.
        shared: number of distinct n-grams of the part that the texts have.
        total: number of its distinct n-grams.
        example: the first shared n-gram.
        place: number of the first text with it, from 1.

    """

    id: str
    task: str
    part: str
    shared: int
    total: int
    example: str
    place: int


@dataclass(frozen=True)
class Contamination:
    """The result of a check.

    Attributes:
        overlaps: largest share first.
        checked: number of parts with at least one n-gram, by config and part.
        too_short: number of parts without one, by config and part; nothing can be said about them.
        texts: number of training texts.

    """

    overlaps: list[Overlap]
    checked: Counter[tuple[str, str]]
    too_short: Counter[tuple[str, str]]
    texts: int


def check_contamination(texts: Iterable[str], language: str = "en") -> Contamination:
    """Find the records whose prompts or references share 13 consecutive words with training texts.

    Args:
        texts: of the training data; they are read once, one after the other.
        language: of the records.

    Raises:
        H2HTalkError: there are no records in the language.

    """
    parts = list(_parts(language))
    ngrams = [_ngrams(text) for _, _, _, text in parts]
    wanted = _of_one_relationship([record["relationship"] for record, *_ in parts], ngrams)
    found: dict[int, int] = {}
    num_texts = 0
    for num_texts, text in enumerate(texts, 1):
        for ngram in _ngrams(text).keys() & wanted.keys():
            found.setdefault(ngram, num_texts)
    overlaps = []
    checked, too_short = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for (record, task, part, _), of_part in zip(parts, ngrams, strict=True):
        (checked if of_part else too_short)[task, part] += 1
        if shared := [ngram for ngram in of_part if ngram in found]:
            first = min(shared, key=lambda ngram: found[ngram])
            overlaps.append(Overlap(record["id"], task, part, len(shared), len(of_part), of_part[first], found[first]))
    overlaps.sort(key=lambda overlap: -overlap.shared / overlap.total)
    return Contamination(overlaps, checked, too_short, num_texts)


def texts_of_file(file: str | Path) -> Iterator[str]:
    """Yield the texts of a training file: every string of JSON, JSON lines or Parquet; else the whole file.

    Raises:
        H2HTalkError: the file cannot be read.

    """
    file = Path(file)
    try:
        if file.suffix == ".jsonl":
            with file.open(encoding="utf-8") as lines:
                for number, line in enumerate(lines, 1):
                    yield from _strings(_json(line, f"{file}, line {number}")) if line.strip() else ()
        elif file.suffix == ".json":
            yield from _strings(_json(file.read_text("utf-8"), str(file)))
        elif file.suffix == ".parquet":
            import pyarrow.parquet

            for batch in pyarrow.parquet.ParquetFile(file).iter_batches():
                yield from _strings(batch.to_pylist())
        else:
            yield file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise H2HTalkError(f"cannot read {file}: {' '.join(str(error).split())}") from None


def _parts(language: str) -> Iterator[tuple[Mapping[str, Any], str, str, str]]:
    for task in TASKS:
        for record in records_of(task, language):
            own = [message["content"] for message in render(record) if message["role"] != "system"]
            yield record, task, "prompt", "\n".join(own)
            for reference in (record["reference"], *record["alternatives"]):
                yield record, task, "reference", reference


def _ngrams(text: str) -> dict[int, str]:
    """Distinct n-grams of a text by their hash."""
    tokens = words(text)
    joined = (" ".join(tokens[start : start + NGRAM]) for start in range(len(tokens) - NGRAM + 1))
    return {hash(ngram): ngram for ngram in joined}


def _of_one_relationship(relationships: list[str], ngrams: list[dict[int, str]]) -> dict[int, str]:
    """The n-grams that only one relationship has, and drop all others from `ngrams`: templates have them."""
    owner: dict[int, str] = {}
    for relationship, of_part in zip(relationships, ngrams, strict=True):
        for ngram in of_part:
            owner[ngram] = relationship if owner.get(ngram, relationship) == relationship else _SEVERAL
    for of_part in ngrams:
        for ngram in [ngram for ngram in of_part if owner[ngram] == _SEVERAL]:
            del of_part[ngram]
    return {ngram: relationship for ngram, relationship in owner.items() if relationship != _SEVERAL}


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise H2HTalkError(f"{where} is not JSON: {error}") from None


def _strings(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, Mapping):
        for value in tree.values():
            yield from _strings(value)
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from _strings(value)
