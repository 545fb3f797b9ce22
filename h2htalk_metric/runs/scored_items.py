"""Score answers against their records: one row per answer, with everything that the record and the answer tell."""

__all__ = ["CHARACTER_COMPOSITE", "REFERENCES", "SYNTHESIS", "score_answers"]

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from h2htalk_datasets.answer_format import format_error
from h2htalk_datasets.languages import LANGUAGES
from h2htalk_datasets.schema import Record
from h2htalk_metric.metrics.composite import COMPONENTS, Scores, score
from h2htalk_metric.metrics.facts import contradictions
from h2htalk_metric.metrics.lexical import LEXICAL, character_lexical, lexical
from h2htalk_metric.metrics.memory_labels import contents, label_agreement
from h2htalk_metric.metrics.similarity import DEFAULT_EMBEDDER, Embedder
from h2htalk_metric.metrics.tokenizers import clean

SYNTHESIS = "RecollectionSynthesis"
"""The task whose answers have labels."""
REFERENCES = ("first", "all")
"""Score against the first reference, or against the best of all references of a record."""
CHARACTER_COMPOSITE = "character_composite"
"""Column of a figure next to S; see :class:`h2htalk_metric.runs.scoring.RunScores`."""
_LABEL_COLUMNS = ("content_composite", "category_agreement", "importance_error")


def score_answers(
    predictions: Sequence[Mapping[str, Any]],
    records: Sequence[Mapping[str, Any]],
    *,
    embedder: str | Embedder | None = None,
    similarity: np.ndarray | None = None,
    references: str = "first",
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Score prediction lines against their records.

    Args:
        predictions: lines with prediction and, if available, finish_reason and new_tokens.
        records: the record of each line.
        embedder: for SS.
        similarity: SS of each answer, shape (n,), 0..1, in place of an embedder; for instance as a submission claims.
        references: one of :data:`REFERENCES`; with `similarity` only "first".

    Returns:
        The items as in :class:`h2htalk_metric.runs.scoring.RunScores`, and the signature. With `similarity`,
        content_composite is NaN and the signature is empty.

    """
    texts = [line["prediction"] for line in predictions]
    if similarity is None:
        options = [_references(record, references) for record in records]
        scores = _score(texts, records, options, embedder or DEFAULT_EMBEDDER)
    else:
        scores = _with_similarity(texts, records, similarity)
    items = pd.DataFrame(_record_columns(records))
    items[[*COMPONENTS]] = scores.components
    items["composite"] = scores.composite
    items["empty"] = scores.empty
    items["finish_reason"] = [line.get("finish_reason") for line in predictions]
    items["new_tokens"] = [line.get("new_tokens") for line in predictions]
    items["format_error"] = [
        format_error(Record.model_validate(record), text) for record, text in zip(records, texts, strict=True)
    ]
    items["fact_errors"] = [_fact_errors(text, record) for text, record in zip(texts, records, strict=True)]
    _add_label_columns(items, texts, records, embedder if similarity is None else None)
    _add_character_column(items, texts, records)
    return items, dict(scores.signature) | ({"references": references} if references != "first" else {})


def _record_columns(records: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    columns = {name: [record[name] for record in records] for name in ("id", "task", "language")}
    columns["relationship"] = [record["id"].rsplit("-", 2)[0] for record in records]
    columns |= {name: [record[name] for record in records] for name in ("need", "difficulty", "emotion")}
    columns["turns"] = [len(record["history"]) for record in records]
    lengths = [LANGUAGES[record["language"]].count(record["reference"]) for record in records]
    return columns | {"reference_words": lengths}


def _fact_errors(text: str, record: Mapping[str, Any]) -> str | None:
    if record["language"] != "en":
        return None
    errors = contradictions(text, record)
    return "; ".join(f"{kind}: {', '.join(facts)}" for kind, facts in errors.items()) or None


def _references(record: Mapping[str, Any], references: str) -> list[str]:
    """The references against which an answer is scored; the best one counts."""
    return [record["reference"], *(record["alternatives"] if references == "all" else ())]


def _score(
    texts: Sequence[str],
    records: Sequence[Mapping[str, Any]],
    references: Sequence[Sequence[str]],
    embedder: str | Embedder,
) -> Scores:
    return score(texts, references, language=[record["language"] for record in records], embedder=embedder)


def _with_similarity(texts: Sequence[str], records: Sequence[Mapping[str, Any]], similarity: np.ndarray) -> Scores:
    answers = [clean(text).strip() for text in texts]
    empty = np.array([not answer for answer in answers])
    components = np.zeros((len(texts), len(COMPONENTS)))
    for place, (answer, record) in enumerate(zip(answers, records, strict=True)):
        if not empty[place]:
            reference = clean(record["reference"]).strip()
            components[place] = [*lexical(answer, reference, record["language"]), similarity[place]]
    return Scores(components, empty, {})


def _add_character_column(items: pd.DataFrame, texts: Sequence[str], records: Sequence[Mapping[str, Any]]) -> None:
    """Fill the column that only Chinese has."""
    if all(record["language"] != "zh" for record in records):
        return
    composites = np.full(len(texts), np.nan)
    for place, (text, record) in enumerate(zip(texts, records, strict=True)):
        if record["language"] == "zh":
            answer, reference = clean(text).strip(), clean(record["reference"]).strip()
            components = character_lexical(answer, reference) if answer else (0.0,) * len(LEXICAL)
            composites[place] = (sum(components) + items["ss"].iloc[place]) / len(COMPONENTS)
    items[CHARACTER_COMPOSITE] = composites


def _add_label_columns(
    items: pd.DataFrame,
    texts: Sequence[str],
    records: Sequence[Mapping[str, Any]],
    embedder: str | Embedder | None,
) -> None:
    """Fill the columns that only RecollectionSynthesis has."""
    for column in _LABEL_COLUMNS:
        items[column] = np.nan
    places = [place for place, record in enumerate(records) if record["task"] == SYNTHESIS]
    if places and embedder is not None:
        chosen = [records[place] for place in places]
        bare = [[contents(record["reference"])] for record in chosen]
        content_scores = _score([contents(texts[place]) for place in places], chosen, bare, embedder)
        items.loc[places, "content_composite"] = content_scores.composite
    for place in places:
        agreement = label_agreement(texts[place], records[place]["reference"], records[place]["language"])
        if agreement:
            items.loc[place, ["category_agreement", "importance_error"]] = list(agreement)
