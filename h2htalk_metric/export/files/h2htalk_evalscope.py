"""H2HTalk for EvalScope: the benchmark ``h2htalk``, whose subsets are the exported configs.

Run this file instead of ``evalscope eval``; it takes the same options.
"""

import json
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from evalscope import run_task
from evalscope.api.benchmark import BenchmarkMeta, DefaultDataAdapter
from evalscope.api.dataset import Dataset, DatasetDict, LocalDataLoader, Sample
from evalscope.api.evaluator import TaskState
from evalscope.api.messages import ChatMessageSystem, ChatMessageUser
from evalscope.api.metric import Score
from evalscope.api.model import GenerateConfig, Model, ModelOutput
from evalscope.api.registry import register_benchmark
from evalscope.arguments import parse_args
from evalscope.metrics.semantics.catalog import BENCHMARK_METRIC_OVERRIDES
from evalscope.metrics.semantics.entry import MetricEntry

from h2htalk_datasets.generation.engines.reasoning import cut_reasoning
from h2htalk_metric import score

_HERE = Path(__file__).resolve().parent
_EXPORT = json.loads((_HERE / "h2htalk_export.json").read_text("utf-8"))
# EvalScope's report must find the meaning of the main metric in its own table; otherwise it stops with an error.
BENCHMARK_METRIC_OVERRIDES["h2htalk", "composite"] = MetricEntry(
    baseline="quality.similarity.ratio", metric_name="composite"
)
_ONE_AT_A_TIME = Lock()  # EvalScope scores in threads, which share one embedder


@register_benchmark(
    BenchmarkMeta(
        name="h2htalk",
        pretty_name="H2HTalk",
        description="Emotional companionship: dialogue, itinerary and recollection (arXiv 2507.03543).",
        dataset_id=str(_HERE / "data"),
        subset_list=list(_EXPORT["tasks"]),
        metric_list=["composite"],
        primary_metric="composite",
        few_shot_mode="disabled",
        eval_split="test",
    )
)
class H2HTalkAdapter(DefaultDataAdapter):
    """The records with their own system messages and token limits, and the composite."""

    def load(self) -> tuple[DatasetDict, None]:
        """Read the records of each config from the export."""
        return self.load_subsets(partial(self.load_subset, data_loader=LocalDataLoader)), None

    def load_subset(self, subset: str, data_loader: type[LocalDataLoader]) -> Dataset:
        """Read the records of one config."""
        return data_loader(
            data_id_or_path=str(_HERE / "data" / subset / "test.jsonl"),
            split="test",
            subset=subset,
            sample_fields=self.record_to_sample,
            limit=self.limit,
            repeats=self.repeats,
            shuffle=self.shuffle,
            seed=self.seed,
        ).load()

    def record_to_sample(self, record: dict[str, Any]) -> Sample:
        """One record with its system message."""
        return Sample(
            input=[ChatMessageSystem(content=record["system"]), ChatMessageUser(content=record["prompt"])],
            target=record["reference"],
            metadata={key: record[key] for key in ("id", "task", "language")},
        )

    def _on_inference(self, model: Model, sample: Sample) -> ModelOutput:
        limit = _EXPORT["tasks"][sample.metadata["task"]]["max_new_tokens"]
        return model.generate(input=sample.input, tools=sample.tools, config=GenerateConfig(max_tokens=limit))

    def extract_answer(self, prediction: str, task_state: TaskState) -> str:
        """The answer without its thoughts."""
        return cut_reasoning(prediction)[0]

    def match_score(
        self, original_prediction: str, filtered_prediction: str, reference: str, task_state: TaskState
    ) -> Score:
        """The composite of an answer and its seven components, 0..1."""
        language = task_state.metadata["language"]
        with _ONE_AT_A_TIME:
            scores = score([filtered_prediction], [reference], language=language, embedder=_EXPORT["embedder"])
        (values,) = scores.rows()
        return Score(
            value={"composite": values["composite"]} | values,
            extracted_prediction=filtered_prediction,
            prediction=original_prediction,
            main_score_name="composite",
        )


if __name__ == "__main__":
    arguments = parse_args()
    arguments.datasets = ["h2htalk"]
    run_task(arguments)
