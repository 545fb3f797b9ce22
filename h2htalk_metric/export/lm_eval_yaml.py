"""The YAML files that lm-evaluation-harness reads: one per config, and the groups."""

__all__ = ["LM_EVAL_YAML", "write_lm_eval_yaml"]

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from h2htalk_datasets.tasks import DIMENSIONS, TASKS

_OVERALL = "h2htalk"


def _task_name(name: str) -> str:
    return f"h2htalk_{name}"


LM_EVAL_YAML = tuple(f"{name}.yaml" for name in (_OVERALL, *map(_task_name, (*DIMENSIONS, *TASKS))))
"""All files that :func:`write_lm_eval_yaml` may write."""


def write_lm_eval_yaml(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write a task ``h2htalk_<config>`` per config, a group per dimension, and the group ``h2htalk`` of all of them.

    Group ``h2htalk`` weights each config by its number of records; the group of a dimension takes the plain mean.

    Args:
        folder: also holds ``_h2htalk_common_yaml``.
        manifest: of the export.

    """
    metadata = {"version": 1.0, **{key: manifest[key] for key in ("h2htalk", "embedder", "dataset", "prompts")}}
    for name, task in manifest["tasks"].items():
        content = {
            "include": "_h2htalk_common_yaml",
            "task": _task_name(name),
            "dataset_kwargs": {"config": name},
            "generation_kwargs": {"until": [], "do_sample": False, "max_gen_toks": task["max_new_tokens"]},
            "metadata": metadata,
        }
        _write(folder, _task_name(name), content)
    groups = []
    for dimension in DIMENSIONS:
        members = [_task_name(name) for name in manifest["tasks"] if TASKS[name].dimension == dimension]
        if members:
            groups.append(_task_name(dimension))
            _write(folder, groups[-1], _group(groups[-1], members, metadata, weighted=False))
    _write(folder, _OVERALL, _group(_OVERALL, groups, metadata, weighted=True))


def _group(name: str, members: list[str], metadata: dict[str, Any], weighted: bool) -> dict[str, Any]:
    mean = {"metric": "composite", "aggregation": "mean", "weight_by_size": weighted}
    return {"group": name, "task": members, "aggregate_metric_list": [mean], "metadata": metadata}


def _write(folder: Path, name: str, content: dict[str, Any]) -> None:
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False), "utf-8")
