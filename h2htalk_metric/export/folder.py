"""Write the folder of an export."""

__all__ = ["HARNESSES", "export"]

import json
import shutil
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError, did_you_mean
from h2htalk_datasets.files import write_atomically
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.generation.engines.base import Prompt
from h2htalk_datasets.generation.run import chosen_rows, prompt_of
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.export.lm_eval_yaml import LM_EVAL_YAML, write_lm_eval_yaml
from h2htalk_metric.metrics.similarity import DEFAULT_EMBEDDER

HARNESSES = {
    "lm-eval": ("h2htalk_lm_eval.py", "_h2htalk_common_yaml"),
    "lighteval": ("h2htalk_lighteval.py", "overall.py"),
    "inspect": ("h2htalk_inspect.py",),
}
"""The harnesses, and the files that each gets as they are; besides, its README."""

_FILES = Path(__file__).parent / "files"
_MANIFEST = "h2htalk_export.json"


def export(
    harness: str, out: str | Path, *, tasks: str = "all", embedder: str = DEFAULT_EMBEDDER, thinking_tokens: int = 0
) -> Path:
    """Write chosen configs as tasks of another harness.

    Args:
        harness: ``lm-eval``, ``lighteval`` or ``inspect``.
        out: the folder; an earlier export in it is replaced, other files stay.
        tasks: config names joined by commas, or ``all``.
        embedder: for SS, as in :func:`h2htalk_metric.score`; the harness's process loads it when it scores.
        thinking_tokens: room for thoughts, beside the room for the answer.

    Returns:
        The folder.

    Raises:
        H2HTalkError: harness or task is unknown, or the folder holds something else.

    """
    if harness not in HARNESSES:
        known = ", ".join(HARNESSES)
        raise H2HTalkError(f"unknown harness {harness!r}.{did_you_mean(harness, HARNESSES)} They are: {known}")
    rows = chosen_rows(tasks)
    prompts = [prompt_of(row, sap=True, thinking_tokens=thinking_tokens) for row in rows]
    folder = _cleared(Path(out))
    manifest = _manifest(harness, embedder, rows, prompts)
    _write_records(folder, rows, prompts)
    for name in HARNESSES[harness]:
        shutil.copyfile(_FILES / name, folder / name)
    shutil.copyfile(_FILES / f"{harness}.md", folder / "README.md")
    if harness == "lm-eval":
        write_lm_eval_yaml(folder, manifest)
    write_atomically(folder / _MANIFEST, json.dumps(manifest, indent=1) + "\n")
    return folder


def _cleared(folder: Path) -> Path:
    """Take an earlier export away, and nothing else: results and logs of its harness may lie beside it."""
    if folder.exists() and not (folder / _MANIFEST).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise H2HTalkError(f"{folder} holds something else than an export; name another folder with --out")
    copied = [name for files in HARNESSES.values() for name in files]
    for name in [*map(_records, TASKS), *map(Path, [*copied, *LM_EVAL_YAML, "README.md", _MANIFEST])]:
        (folder / name).unlink(missing_ok=True)
    for place in (*(folder / "data" / task for task in TASKS), folder / "data"):
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _records(task: str) -> Path:
    return Path("data", task, "test.jsonl")


def _manifest(harness: str, embedder: str, rows: Sequence[dict[str, Any]], prompts: Sequence[Prompt]) -> dict[str, Any]:
    """What the export was made from; dataset and prompts as the manifest of a run has them."""
    tasks: dict[str, dict[str, int]] = {}
    for prompt in prompts:
        task = tasks.setdefault(prompt.task, {"n": 0, "max_new_tokens": prompt.max_new_tokens})
        task["n"] += 1
    return {
        "harness": harness,
        "h2htalk": version("h2htalk"),
        "embedder": embedder,
        "dataset": fingerprint(rows),
        "prompts": fingerprint({"id": prompt.id, "messages": prompt.messages} for prompt in prompts),
        "tasks": tasks,
    }


def _write_records(folder: Path, rows: Sequence[dict[str, Any]], prompts: Sequence[Prompt]) -> None:
    """One folder a config, each a dataset that `datasets` loads by its path."""
    lines: dict[str, list[str]] = {}
    for row, prompt in zip(rows, prompts, strict=True):
        system, user = (message["content"] for message in prompt.messages)
        record = {"id": row["id"], "task": row["task"], "language": row["language"]}
        record |= {"system": system, "prompt": user, "reference": row["reference"]}
        lines.setdefault(row["task"], []).append(json.dumps(record, ensure_ascii=False))
    for task, texts in lines.items():
        file = folder / _records(task)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(texts) + "\n", "utf-8")
