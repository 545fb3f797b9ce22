"""Write the folder of an export."""

__all__ = ["HARNESSES", "check_replaceable", "export"]

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
from h2htalk_datasets.generation.requests import chosen_rows, prompt_of, prompts_hash
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.export.lm_eval_yaml import LM_EVAL_YAML, write_lm_eval_yaml
from h2htalk_metric.export.opencompass_config import OPENCOMPASS_CONFIG, write_opencompass_config
from h2htalk_metric.metrics.similarity import DEFAULT_EMBEDDER

HARNESSES = {
    "lm-eval": ("h2htalk_lm_eval.py", "_h2htalk_common_yaml"),
    "lighteval": ("h2htalk_lighteval.py", "overall.py"),
    "inspect": ("h2htalk_inspect.py",),
    "opencompass": ("h2htalk_opencompass.py",),
    "evalscope": ("h2htalk_evalscope.py",),
}
"""Harness name to the files that are copied unchanged; each harness also gets a README."""
_WRITERS = {"lm-eval": write_lm_eval_yaml, "opencompass": write_opencompass_config}
"""What writes further files from the manifest."""

_FILES = Path(__file__).parent / "files"
_MANIFEST = "h2htalk_export.json"


def export(
    harness: str, out: str | Path, *, tasks: str = "all", embedder: str = DEFAULT_EMBEDDER, thinking_tokens: int = 0
) -> Path:
    """Write configs as tasks of another harness.

    Args:
        harness: a key of :data:`HARNESSES`.
        out: the folder. An earlier export in it is replaced; other files, such as results, stay.
        tasks: config names joined by commas, or ``all``.
        embedder: for SS, as in :func:`h2htalk_metric.score`; the harness's process loads it.
        thinking_tokens: new tokens for the model's thoughts, in addition to those for the answer.

    Returns:
        The folder.

    Raises:
        H2HTalkError: harness or task is unknown, or the folder has files but no export.

    """
    if harness not in HARNESSES:
        hint = did_you_mean(harness, HARNESSES)
        raise H2HTalkError(f"unknown harness {harness!r}.{hint} Choose one of: {', '.join(HARNESSES)}")
    records = chosen_rows(tasks)
    prompts = [prompt_of(record, sap=True, thinking_tokens=thinking_tokens) for record in records]
    manifest = _manifest(harness, embedder, records, prompts)
    folder = Path(out)
    check_replaceable(folder, _MANIFEST)
    folder.mkdir(parents=True, exist_ok=True)
    # The manifest marks the folder as an export, so it comes first: an interrupted export can be repeated. The files
    # that a harness runs come last: an interrupted export cannot be run.
    write_atomically(folder / _MANIFEST, json.dumps(manifest, indent=1) + "\n")
    _remove_earlier_export(folder)
    _write_records(folder, records, prompts)
    if harness in _WRITERS:
        _WRITERS[harness](folder, manifest)
    shutil.copyfile(_FILES / f"{harness}.md", folder / "README.md")
    for name in HARNESSES[harness]:
        shutil.copyfile(_FILES / name, folder / name)
    return folder


def check_replaceable(folder: Path, manifest: str) -> None:
    """Check that a folder is new, empty, or an earlier export, which has a file `manifest`.

    Raises:
        H2HTalkError: it is not.

    """
    if not folder.exists() or (folder / manifest).is_file():
        return
    if not folder.is_dir() or any(folder.iterdir()):
        raise H2HTalkError(f"{folder} exists and is not an export; choose another folder with --out")


def _remove_earlier_export(folder: Path) -> None:
    """Remove what any export writes, except the manifest; results and logs of a harness stay."""
    copied = [name for files in HARNESSES.values() for name in files]
    for name in [
        *(str(_records_file(task)) for task in TASKS),
        *copied,
        *LM_EVAL_YAML,
        OPENCOMPASS_CONFIG,
        "README.md",
    ]:
        (folder / name).unlink(missing_ok=True)
    for subfolder in (*(folder / "data" / task for task in TASKS), folder / "data"):
        if subfolder.is_dir() and not any(subfolder.iterdir()):
            subfolder.rmdir()


def _records_file(task: str) -> Path:
    return Path("data", task, "test.jsonl")


def _manifest(
    harness: str, embedder: str, records: Sequence[dict[str, Any]], prompts: Sequence[Prompt]
) -> dict[str, Any]:
    """What the export was made from; ``dataset`` and ``prompts`` are fingerprints as in the manifest of a run."""
    tasks: dict[str, dict[str, int]] = {}
    for prompt in prompts:
        task = tasks.setdefault(prompt.task, {"n": 0, "max_new_tokens": prompt.max_new_tokens})
        task["n"] += 1
    return {
        "harness": harness,
        "h2htalk": version("h2htalk"),
        "embedder": embedder,
        "dataset": fingerprint(records),
        "prompts": prompts_hash(prompts),
        "tasks": tasks,
    }


def _write_records(folder: Path, records: Sequence[dict[str, Any]], prompts: Sequence[Prompt]) -> None:
    """Write one folder per config; `datasets` loads each by its path."""
    lines: dict[str, list[str]] = {}
    for record, prompt in zip(records, prompts, strict=True):
        system, user = (message["content"] for message in prompt.messages)
        line = {key: record[key] for key in ("id", "task", "language")}
        line |= {"system": system, "prompt": user, "reference": record["reference"]}
        lines.setdefault(record["task"], []).append(json.dumps(line, ensure_ascii=False))
    for task, task_lines in lines.items():
        file = folder / _records_file(task)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(task_lines) + "\n", "utf-8")
