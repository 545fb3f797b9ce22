"""The composite S of the paper (Eq. 2), per item and in the mean.

S = (BLEU-1 + BLEU-2 + BLEU-3 + BLEU-4 + ROUGE-1 + ROUGE-L + SS) / 7
"""

__all__ = ["COMPONENTS", "Scores", "check_is_list", "score"]

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.languages import language_of
from h2htalk_metric.metrics.lexical import LEXICAL, lexical
from h2htalk_metric.metrics.signature import make_signature
from h2htalk_metric.metrics.similarity import DEFAULT_EMBEDDER, Embedder, load_embedder, semantic_similarity
from h2htalk_metric.metrics.tokenizers import clean

COMPONENTS = (*LEXICAL, "ss")
"""The seven components of S, in the order of the equation."""


@dataclass(frozen=True)
class Scores:
    """The scores of n items.

    Attributes:
        components: float64, shape (n, 7), columns as in :data:`COMPONENTS`, values 0..1.
        empty: bool, shape (n,); True if the answer was missing or blank. Such an answer scores 0.
        signature: every choice that changes a number.

    """

    components: np.ndarray
    empty: np.ndarray
    signature: dict[str, Any]

    @property
    def composite(self) -> np.ndarray:
        """S of every item (Eq. 2), float64, shape (n,), 0..1."""
        return self.components.mean(axis=1)

    def rows(self) -> list[dict[str, float]]:
        """One mapping per item: the seven components and ``composite``, 0..1."""
        named = [dict(zip(COMPONENTS, map(float, line), strict=True)) for line in self.components]
        return [line | {"composite": float(s)} for line, s in zip(named, self.composite, strict=True)]

    def mean(self) -> dict[str, float]:
        """Mean over the items of each component and of ``composite``, 0..1."""
        means = dict(zip(COMPONENTS, map(float, self.components.mean(axis=0)), strict=True))
        return means | {"composite": float(self.composite.mean())}


def score(
    predictions: Sequence[str | None],
    references: Sequence[str] | Sequence[Sequence[str]],
    *,
    language: str | Sequence[str] = "en",
    embedder: str | Embedder = DEFAULT_EMBEDDER,
) -> Scores:
    """Score answers against references (Eq. 1 and 2).

    Args:
        predictions: one answer per item; None and blank answers score 0 and are counted, never dropped.
        references: one reference per item, or several, of which the one with the best composite counts.
        language: ``en`` or ``zh``, one for all items or one per item.
        embedder: a name (see :func:`h2htalk_metric.metrics.similarity.load_embedder`) or a loaded embedder.

    Returns:
        Components per item, and the signature.

    Raises:
        H2HTalkError: the numbers of answers and references differ, there are none, a reference is empty or not a text,
            a language is unknown, or the embedder cannot be loaded or gives vectors that are not finite.

    """
    if not isinstance(embedder, (str, Embedder)):
        raise H2HTalkError(f"embedder is of type {type(embedder).__name__}; give a name or a loaded embedder")
    answers, options, languages = _checked(predictions, references, language)
    model = load_embedder(embedder) if isinstance(embedder, str) else embedder
    pairs = [(i, answers[i], text) for i, texts in enumerate(options) for text in texts if answers[i]]
    values = np.zeros((len(pairs), len(COMPONENTS)))
    if pairs:
        values[:, :-1] = [lexical(answer, text, languages[i]) for i, answer, text in pairs]
        values[:, -1] = semantic_similarity([pair[1] for pair in pairs], [pair[2] for pair in pairs], model)
    best = np.zeros((len(answers), len(COMPONENTS)))
    for (i, _, _), line in zip(pairs, values, strict=True):
        if line.sum() > best[i].sum():
            best[i] = line
    signature = make_signature(embedder=model, languages=languages, n=len(answers))
    return Scores(best, np.array([not answer for answer in answers]), signature)


def check_is_list(**arguments: Any) -> None:
    """Check that no argument is a single text, which would be scored letter by letter.

    Raises:
        H2HTalkError: one of them is; names it.

    """
    for name, value in arguments.items():
        if isinstance(value, str):
            raise H2HTalkError(f"{name} is one text; give a list with one entry per item")


def _checked(
    predictions: Sequence[str | None], references: Sequence[Any], language: str | Sequence[str]
) -> tuple[list[str], list[list[str]], list[str]]:
    check_is_list(predictions=predictions, references=references)
    if len(predictions) != len(references):
        raise H2HTalkError(f"{len(predictions)} predictions but {len(references)} references; give one for each")
    if not len(predictions):
        raise H2HTalkError("nothing to score: predictions and references are empty")
    languages = [language] * len(predictions) if isinstance(language, str) else list(language)
    if len(languages) != len(predictions):
        raise H2HTalkError(f"{len(predictions)} predictions but {len(languages)} languages; give one, or one for each")
    for code in sorted(set(languages)):
        language_of(code)  # raises if it is unknown
    answers = [_answer(place, answer) for place, answer in enumerate(predictions)]
    return answers, [_references(place, value) for place, value in enumerate(references)], languages


def _answer(place: int, answer: Any) -> str:
    if answer is not None and not isinstance(answer, str):
        raise H2HTalkError(f"prediction {place} is of type {type(answer).__name__}; expected a text or None")
    return clean(answer).strip() if answer else ""


def _references(place: int, value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else list(value) if isinstance(value, Iterable) else []
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise H2HTalkError(
            f"reference {place} is empty or not a text: {value!r}; every item needs at least one reference"
        )
    return [clean(text).strip() for text in texts]
