"""H2HTalk for lm-evaluation-harness: the functions that the YAML files of this folder call."""

import json
from pathlib import Path
from typing import Any

from datasets import DatasetDict, load_dataset

from h2htalk_datasets.generation.engines.reasoning import cut_reasoning
from h2htalk_metric import score

_HERE = Path(__file__).parent
_EMBEDDER = json.loads((_HERE / "h2htalk_export.json").read_text("utf-8"))["embedder"]


def records(config: str, **_: Any) -> DatasetDict:
    """The records of one config, with rendered prompts."""
    return load_dataset(str(_HERE / "data" / config))


def score_answer(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """The seven components of one answer, without its thoughts, and its composite, 0..1."""
    answers = [cut_reasoning(text)[0] for text in results]
    return score(answers, [doc["reference"]], language=doc["language"], embedder=_EMBEDDER).rows()[0]
