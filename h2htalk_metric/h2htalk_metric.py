"""The `evaluate` module: ``evaluate.load("h2htalk")`` or ``evaluate.load("h2htalk", "ItineraryMiddle")``."""

# `evaluate` reads these lines itself, so each is a plain import.
import typing

import datasets
import evaluate

import h2htalk_datasets
import h2htalk_metric.metrics.composite
import h2htalk_metric.metrics.signature
import h2htalk_metric.metrics.similarity
import h2htalk_metric.metrics.tokenizers

_CITATION = """\
@misc{h2htalk2025,
  author = {Wang, Boyang and Wu, Yalun and Guo, Hongcheng and Li, Zhoujun},
  title  = {H2HTalk: Evaluating Large Language Models as Emotional Companion},
  eprint = {2507.03543}, archivePrefix = {arXiv}, year = {2025}
}
"""

_DESCRIPTION = """\
H2HTalk's composite S: the mean of sentence BLEU-1 to BLEU-4, ROUGE-1, ROUGE-L and SS, the cosine of dense embeddings
of answer and reference (paper, Eq. 1 and 2). Per item, then the mean over items.
"""

_KWARGS = """\
Args:
    predictions: list of answers (str); empty ones score 0 and are counted.
    references: list of references: one str per answer, or a list of str, of which the best composite counts.
    language: "en" or "zh", or a list with one per item.
    embedder: "BAAI/bge-m3" by default; the signature shows any other name.
    per_item: whether to add a list "items" with the components of every item.
Returns:
    bleu1, bleu2, bleu3, bleu4, rouge1, rougeL, ss, composite: means, 0..1.
    n, empty: number of items, and number of empty answers among them.
    signature: one line with every choice that changes a number.
Examples:
    >>> metric = evaluate.load("h2htalk")
    >>> result = metric.compute(predictions=["a cup of tea"], references=["a cup of tea"], embedder="demo")
    >>> round(result["composite"], 3)
    1.0
"""


def _text(given: object) -> object:
    """A text without lone surrogates, which Arrow cannot store; `evaluate` refuses what is not a text."""
    return h2htalk_metric.metrics.tokenizers.clean(given) if isinstance(given, str) else given


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS)
class H2htalk(evaluate.Metric):
    """The composite as an ``evaluate.Metric``; a config name may be any of the eleven tasks."""

    def _info(self) -> evaluate.MetricInfo:
        if self.config_name not in ("default", *h2htalk_datasets.TASKS):
            h2htalk_datasets.tasks.select_tasks([self.config_name])  # raises, naming the eleven
        text = datasets.Value("string")
        several = datasets.Sequence(datasets.Value("string"))
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS,
            features=[
                datasets.Features({"predictions": text, "references": text}),
                datasets.Features({"predictions": text, "references": several}),
            ],
            reference_urls=["https://arxiv.org/abs/2507.03543"],
        )

    def add_batch(self, *, predictions: typing.Any = None, references: typing.Any = None, **kwargs: typing.Any) -> None:
        """As in `evaluate`, but takes what :func:`h2htalk_metric.score` takes: None, and one reference or several."""
        h2htalk_metric.metrics.composite.check_is_list(predictions=predictions, references=references)
        if predictions is not None and references is not None and len(predictions) == len(references) == 0:
            return  # a rank may hold no items
        if predictions is not None:
            predictions = [_text("" if text is None else text) for text in predictions]
        if references is not None:
            references = [
                [*map(_text, given)] if isinstance(given, (list, tuple)) else [_text(given)] for given in references
            ]
        super().add_batch(predictions=predictions, references=references, **kwargs)

    def add(self, *, prediction: typing.Any = None, reference: typing.Any = None, **kwargs: typing.Any) -> None:
        """As :meth:`add_batch`, for one item."""
        self.add_batch(predictions=[prediction], references=[reference], **kwargs)

    def _compute(
        self,
        predictions: list[str],
        references: list[str] | list[list[str]],
        language: str | list[str] = "en",
        embedder: str = h2htalk_metric.metrics.similarity.DEFAULT_EMBEDDER,
        per_item: bool = False,
    ) -> dict[str, object]:
        scores = h2htalk_metric.metrics.composite.score(predictions, references, language=language, embedder=embedder)
        result: dict[str, object] = dict(scores.mean())
        result |= {"n": len(scores.empty), "empty": int(scores.empty.sum())}
        result["signature"] = h2htalk_metric.metrics.signature.signature_line(scores.signature)
        if per_item:
            result["items"] = scores.rows()
        return result
