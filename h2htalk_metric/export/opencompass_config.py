"""The config file that OpenCompass runs: model, datasets and summary.

It is plain data: OpenCompass copies config files elsewhere before it reads them, and defers their imports.
"""

__all__ = ["OPENCOMPASS_CONFIG", "write_opencompass_config"]

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from h2htalk_datasets.tasks import DIMENSIONS, TASKS

OPENCOMPASS_CONFIG = "eval_h2htalk.py"
_OPENICL = "opencompass.openicl"

_MODEL = """\
# H2HTalk for OpenCompass; see README.md.
import os

models = [
    dict(
        type="opencompass.models.HuggingFacewithChatTemplate",
        abbr=os.path.basename(os.environ["H2HTALK_MODEL"].rstrip("/")),
        path=os.environ["H2HTALK_MODEL"],
        max_out_len=512,  # each dataset has its own
        batch_size=int(os.environ.get("H2HTALK_BATCH", "8")),
        run_cfg=dict(num_gpus=int(os.environ.get("H2HTALK_GPUS", "1"))),
        # Without this, OpenCompass puts the system message into the user message.
        meta_template=dict(
            round=[dict(role="HUMAN", api_role="HUMAN"), dict(role="BOT", api_role="BOT", generate=True)],
            reserved_roles=[dict(role="SYSTEM", api_role="SYSTEM")],
        ),
    )
]
"""


def write_opencompass_config(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write a dataset ``h2htalk_<config>`` per config, the averages of the dimensions, and the weighted mean.

    Args:
        folder: of the export.
        manifest: of the export.

    """
    datasets = [_dataset(name, task["max_new_tokens"]) for name, task in manifest["tasks"].items()]
    abbreviations = {name: _abbreviation(name) for name in manifest["tasks"]}
    groups: list[dict[str, Any]] = []
    for dimension in DIMENSIONS:
        members = [abbr for name, abbr in abbreviations.items() if TASKS[name].dimension == dimension]
        if members:
            groups.append({"name": _abbreviation(dimension), "subsets": [[abbr, "composite"] for abbr in members]})
    weights = {abbr: manifest["tasks"][name]["n"] for name, abbr in abbreviations.items()}
    subsets = [[abbr, "composite"] for abbr in weights]
    groups.append({"name": "h2htalk", "subsets": subsets, "weights": weights})
    rows = [*subsets, *(group["name"] for group in groups)]
    summarizer = {
        "type": "opencompass.summarizers.DefaultSummarizer",
        "dataset_abbrs": rows,
        "summary_groups": groups,
    }
    parts = {"datasets": datasets, "summarizer": summarizer}
    content = [_MODEL, *(f"{name} = {json.dumps(part, indent=4)}\n" for name, part in parts.items())]
    (folder / OPENCOMPASS_CONFIG).write_text("\n".join(content), "utf-8")


def _abbreviation(name: str) -> str:
    return f"h2htalk_{name}"


def _dataset(config: str, max_new_tokens: int) -> dict[str, Any]:
    system = {"role": "SYSTEM", "fallback_role": "HUMAN", "prompt": "{system}"}
    template = {"begin": [system], "round": [{"role": "HUMAN", "prompt": "{prompt}"}]}
    return {
        "abbr": _abbreviation(config),
        "type": "h2htalk_opencompass.H2HTalkDataset",
        "config": config,
        "reader_cfg": {"input_columns": ["system", "prompt"], "output_column": "reference"},
        "infer_cfg": {
            "prompt_template": {"type": f"{_OPENICL}.icl_prompt_template.PromptTemplate", "template": template},
            "retriever": {"type": f"{_OPENICL}.icl_retriever.ZeroRetriever"},
            "inferencer": {"type": f"{_OPENICL}.icl_inferencer.GenInferencer", "max_out_len": max_new_tokens},
        },
        "eval_cfg": {"evaluator": {"type": "h2htalk_opencompass.H2HTalkEvaluator"}},
    }
