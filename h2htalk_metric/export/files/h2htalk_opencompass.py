"""H2HTalk for OpenCompass: the dataset and the evaluator that ``eval_h2htalk.py`` names."""

import json
from pathlib import Path
from typing import Any

from datasets import Dataset, DatasetDict
from opencompass.datasets.base import BaseDataset
from opencompass.openicl.icl_evaluator import BaseEvaluator

from h2htalk_datasets.generation.engines.reasoning import cut_reasoning
from h2htalk_metric import score

_HERE = Path(__file__).parent
_EMBEDDER = json.loads((_HERE / "h2htalk_export.json").read_text("utf-8"))["embedder"]


class H2HTalkDataset(BaseDataset):
    """The records of one config, with rendered prompts."""

    @staticmethod
    def load(config: str) -> DatasetDict:
        """Read the records; OpenCompass wants a split for examples too."""
        lines = (_HERE / "data" / config / "test.jsonl").read_text("utf-8").splitlines()
        records = Dataset.from_list([json.loads(line) for line in lines])
        return DatasetDict(train=records, test=records)


class H2HTalkEvaluator(BaseEvaluator):
    """The seven components of the answers, without their thoughts, and the composite, times 100."""

    def score(self, predictions: list[str], references: list[str], test_set: Dataset) -> dict[str, Any]:
        """Means over the answers, and the figures of each answer."""
        answers = [cut_reasoning(text)[0] for text in predictions]
        scores = score(answers, list(references), language=list(test_set["language"]), embedder=_EMBEDDER)
        details = [
            {"id": identity, "answer": answer, "reference": reference} | _times_100(row)
            for identity, answer, reference, row in zip(test_set["id"], answers, references, scores.rows(), strict=True)
        ]
        return _times_100(scores.mean()) | {"details": details}


def _times_100(figures: dict[str, float]) -> dict[str, float]:
    """The composite first, as OpenCompass's summary shows them."""
    return {name: 100 * figures[name] for name in ("composite", *(name for name in figures if name != "composite"))}
