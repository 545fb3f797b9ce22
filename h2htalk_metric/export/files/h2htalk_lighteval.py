"""H2HTalk for lighteval: a task ``h2htalk:<config>`` per exported config.

lighteval takes one system prompt for the entire run and puts the instruction of a task into the user message. Here each
record has its own system message, so this module builds the chat prompts of these tasks from both messages.
lighteval's `all` and `_average` are plain means over configs; `overall.py` prints Overall and the averages.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from lighteval.metrics.metrics_sample import SampleLevelComputation
from lighteval.metrics.utils.metric_utils import SampleLevelMetricGrouping
from lighteval.models.model_output import ModelResponse
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.prompt_manager import PromptManager
from lighteval.tasks.requests import Doc, SamplingMethod

from h2htalk_datasets.generation.engines.reasoning import cut_reasoning
from h2htalk_metric import score
from h2htalk_metric.metrics.composite import COMPONENTS

_HERE = Path(__file__).parent
_EXPORT = json.loads((_HERE / "h2htalk_export.json").read_text("utf-8"))
_METRICS = [*COMPONENTS, "composite"]


def to_doc(record: dict[str, Any], task_name: str = "") -> Doc:
    """One record as lighteval's Doc; `specific` holds the system message."""
    specific = {"h2htalk_system": record["system"], "language": record["language"], "id": record["id"]}
    return Doc(record["prompt"], choices=[record["reference"]], gold_index=0, specific=specific, task_name=task_name)


class Composite(SampleLevelComputation):
    """The seven components of an answer, without its thoughts, and its composite, 0..1."""

    def compute(self, doc: Doc, model_response: ModelResponse, **_: Any) -> dict[str, float]:
        """Score the first answer against the reference."""
        answer, language = cut_reasoning(model_response.final_text[0])[0], doc.specific["language"]
        return score([answer], doc.get_golds(), language=language, embedder=_EXPORT["embedder"]).rows()[0]


_METRIC = SampleLevelMetricGrouping(
    metric_name=_METRICS,
    higher_is_better=dict.fromkeys(_METRICS, True),
    category=SamplingMethod.GENERATIVE,
    sample_level_fn=Composite(),
    corpus_level_fn=dict.fromkeys(_METRICS, np.mean),
)

TASKS_TABLE = [
    LightevalTaskConfig(
        name=f"h2htalk:{config}",
        prompt_function=to_doc,
        hf_repo=str(_HERE / "data" / config),
        hf_subset="default",
        hf_avail_splits=["test"],
        evaluation_splits=["test"],
        metrics=[_METRIC],
        generation_size=task["max_new_tokens"],
        stop_sequence=[],
        # lighteval caches answers per task, not per prompt: other prompts need another version.
        version=int(_EXPORT["prompts"][:8], 16),
    )
    for config, task in _EXPORT["tasks"].items()
]

_chat_prompt = PromptManager._prepare_chat_template


def _with_system(self: PromptManager, doc: Doc, tokenize: bool = True) -> Any:
    if not (doc.specific or {}).get("h2htalk_system"):
        return _chat_prompt(self, doc, tokenize)
    messages = [
        {"role": "system", "content": doc.specific["h2htalk_system"]},
        {"role": "user", "content": doc.query},
    ]
    if not tokenize:  # servers apply their own template
        return messages
    return self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)


PromptManager._prepare_chat_template = _with_system
