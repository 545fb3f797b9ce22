"""The results of a run as Every Eval Ever lists them: S per config, averages and Overall; J, and judges' scores."""

__all__ = ["IS_CORRECT", "evaluation_results", "name_of"]

from collections.abc import Mapping
from typing import Any

from h2htalk_datasets.prompts import SAP
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.export.figures import J, Metric, S, figures_of
from h2htalk_metric.export.results import RunResults
from h2htalk_metric.export.schema_texts import as_texts
from h2htalk_metric.judge.judge_items import JUDGED_TASKS
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.judge.prompt import judging_messages
from h2htalk_metric.judge.rubric import load_rubric
from h2htalk_metric.stats.intervals import Interval

IS_CORRECT = "The score is the highest possible one. Answers are open-ended: most good answers are not 'correct'."
"""What ``is_correct``, which the schema demands of every answer, means here."""
_INTERVAL = "Student's t over relationships, with a cluster-robust standard error"


def name_of(results: RunResults, cell: str, metric: Metric) -> dict[str, str]:
    """Id and name of a result, by which answers refer to it.

    Args:
        results: of the run.
        cell: of a row of Table 2.
        metric: whose mean it is.

    """
    name = f"h2htalk{results.suffix}/{cell}" + ("" if metric is S else f"/{metric.key}")
    return {"evaluation_result_id": f"{cell}/{metric.key}", "evaluation_name": name}


def evaluation_results(results: RunResults, benchmark: str | None) -> list[dict[str, Any]]:
    """The results of a run, each a mean with its 95% interval.

    Args:
        results: of the run.
        benchmark: ``ORG/NAME`` of the dataset on the Hub, or None.

    """
    return [
        name_of(results, cell, metric)
        | {
            "source_data": _source_data(results, cell, n, benchmark),
            "metric_config": _metric_config(metric, cell, results),
            "score_details": _score_details(interval, n, details),
            "generation_config": _generation_config(results, cell),
        }
        for cell, metric, interval, n, details in figures_of(results)
    ]


def _source_data(results: RunResults, cell: str, n: int, benchmark: str | None) -> dict[str, Any]:
    dataset = results.run.manifest["dataset"]
    own = dataset.get("data")
    details = {
        "config": f"{cell}{results.suffix}" if cell in TASKS else None,
        "language": results.language,
        "fingerprint": dataset["fingerprint"],
        "records": f"the user's own: {own['name']}" if own else "an independent re-creation after arXiv 2507.03543",
        "limit": dataset["limit"],
        "n": n,
    }
    source = {"dataset_name": "h2htalk", "additional_details": as_texts(details)}
    if benchmark is None or own:
        return source | {"source_type": "other"}
    return source | {"source_type": "hf_dataset", "hf_repo": benchmark, "hf_split": "test", "samples_number": n}


def _metric_config(metric: Metric, cell: str, results: RunResults) -> dict[str, Any]:
    config: dict[str, Any] = {
        "evaluation_description": metric.description,
        "metric_id": f"h2htalk.{metric.key}",
        "metric_name": metric.name,
        "metric_unit": metric.unit,
        "lower_is_better": False,
        "score_type": "continuous",
        "min_score": 0,
        "max_score": metric.highest,
        "additional_details": {"is_correct": IS_CORRECT},
    }
    panel = results.judged.panel if metric is J and results.judged else results.panel
    if metric is S or panel is None:
        return config | {"metric_parameters": {"embedder": results.scores.signature["embedder"]}}
    if metric is J:
        config["metric_parameters"] = {"alpha": panel.alpha, "tau": panel.tau, "scale": panel.scale.name}
    return config | ({"llm_scoring": _llm_scoring(panel, cell, results.language)} if panel.judges else {})


def _llm_scoring(panel: Panel, task: str, language: str) -> dict[str, Any]:
    """Who judged, and the prompt with placeholders for the texts."""
    rubric, texts = load_rubric(task, language), {"reference": "{reference}", "answer": "{answer}"}
    messages = judging_messages(rubric, "{prompt}", texts, explain_first=panel.num_explanations > 0)
    return {
        "judges": [
            {
                "model_info": {
                    "name": judge,
                    "id": judge,
                    "additional_details": {
                        "deployment_type": "unknown" if panel.server else "externally_managed",
                        "model_availability": "unknown",
                        **({"server": panel.server} if panel.server else {}),
                    },
                }
            }
            for judge in panel.judges
        ],
        "input_prompt": "\n\n".join(message["content"] for message in messages),
        "aggregation_method": "average",
        "additional_details": as_texts(
            {
                "positions": "Each answer is judged twice, with the reference first and with the answer first.",
                "rubric": f"{rubric.name} {rubric.hash}",
                "tasks with J": ", ".join(JUDGED_TASKS),
                "num_explanations": panel.num_explanations,
                "seed": panel.seed,
            }
        ),
    }


def _score_details(interval: Interval, n: int, details: Mapping[str, Any]) -> dict[str, Any]:
    uncertainty: dict[str, Any] = {"num_samples": n}
    if interval.defined:
        ends = {"lower": interval.low, "upper": interval.high}
        uncertainty["confidence_interval"] = ends | {"confidence_level": 0.95, "method": _INTERVAL}
    return {"score": interval.value, "uncertainty": uncertainty, "details": as_texts(details)}


def _generation_config(results: RunResults, cell: str) -> dict[str, Any]:
    generation, prompts = results.run.manifest["generation"], results.run.manifest["prompts"]
    arguments = {name: generation[name] for name in ("temperature", "top_p") if name in generation}
    limits = generation.get("max_new_tokens", {})
    if (limit := limits.get(f"{cell}{results.suffix}")) is not None:
        arguments["max_tokens"] = limit
    persona = "full" if set(prompts["sap"]) == set(SAP) else ", ".join(prompts["sap"]) or "none"
    others = {name: value for name, value in generation.items() if name not in arguments}
    details = as_texts(others | {"prompts": prompts["hash"], "persona": persona})
    return {
        "generation_args": arguments | {"reasoning": generation.get("thinking_tokens", 0) > 0},
        "additional_details": details,
    }
