"""The file of a sweep: a list of models, each with its size and its own options of ``h2htalk run``.

defaults: {dtype: bfloat16}
models:
- {model: Qwen/Qwen2.5-7B-Instruct, family: Qwen2.5, parameters: 7.62}
- {model: team/model, name: with-lora, adapter: team/lora, family: mine, parameters: 8.0, processes: 4}
- {model: gpt-x, base_url: https://api.example.com/v1, bracket: proprietary}
"""

__all__ = ["Entry", "as_arguments", "read_models", "sizes_of"]

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from h2htalk_datasets.errors import H2HTalkError, did_you_mean
from h2htalk_datasets.files import parse_yaml
from h2htalk_datasets.generation.config import Settings
from h2htalk_metric.leaderboard.paper import BRACKETS
from h2htalk_metric.runs.model_sizes import ModelSize

_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*")
_OTHER_FILES = ("board",)  # of the sweep's folder
_UPPER_LIMITS = {1: "0-1B", 8: "1-8B", 32: "8-31B"}  # billions of parameters, as the paper's Table 2 groups its models
_SETTINGS = get_type_hints(Settings, include_extras=True)
_RUN_OPTIONS = {name for name, hint in _SETTINGS.items() if get_origin(hint) is Annotated} | {"embedder"}


class Entry(BaseModel):
    """One model of a sweep.

    Attributes:
        model: Hub id, folder, ``demo``, or the model's name at ``base_url``.
        name: of the run folder; the last part of the model's name, and of the adapter's, if not given.
        family: models of one family are one line in the figure of sizes.
        parameters: number of all parameters, in billions.
        bracket: of the board; by the number of parameters if not given.
        processes: of this machine that answer together, one per GPU (per ``devices_per_replica`` GPUs).
        slurm: options of sbatch for this model, for instance ``{nodes: 1, gpus-per-node: 8}``.
        options: of ``h2htalk run``.

    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(min_length=1)
    name: str
    family: str = "other"
    parameters: float | None = Field(None, gt=0)
    bracket: str
    processes: int = Field(1, ge=1)
    slurm: dict[str, str | int] = {}
    options: dict[str, Any] = {}

    def arguments(self, command: str = "run") -> list[str]:
        """Options of ``h2htalk run``, or only those of ``h2htalk generate``, without --out."""
        known = {key: value for key, value in self.options.items() if command == "run" or key != "embedder"}
        return ["--model", self.model, *as_arguments(known)]


def as_arguments(options: Mapping[str, Any]) -> list[str]:
    """Options as command-line arguments: true is a flag, false and null are left out, a list is joined by commas."""
    arguments: list[str] = []
    for key, value in options.items():
        if value is None or value is False:
            continue
        arguments.append(f"--{key.replace('_', '-')}")
        if isinstance(value, list):
            arguments.append(",".join(map(str, value)))
        elif value is not True:
            arguments.append(json.dumps(value) if isinstance(value, dict) else str(value))
    return arguments


def read_models(file: str | Path) -> list[Entry]:
    """Read the file of a sweep.

    Args:
        file: YAML with ``models``, a list of mappings, and optional ``defaults``, options of every model.

    Returns:
        The entries in the file's order, with distinct names.

    Raises:
        H2HTalkError: the file cannot be read, or an entry is wrong; names the entry.

    """
    try:
        tree = parse_yaml(Path(file).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise H2HTalkError(f"cannot read {file}: {' '.join(str(error).split())}") from None
    if not isinstance(tree, dict) or not isinstance(tree.get("models"), list) or not tree["models"]:
        raise H2HTalkError(f"{file} needs a list `models` with at least one model")
    if unknown := tree.keys() - {"defaults", "models"}:
        raise H2HTalkError(
            f"{file} has the unknown key {min(map(str, unknown))!r}; it may have `defaults` and `models`"
        )
    defaults = tree.get("defaults") or {}
    entries = [_entry(defaults, one, f"{file}, model {number}") for number, one in enumerate(tree["models"], 1)]
    counts = Counter(entry.name.lower() for entry in entries)  # some file systems do not distinguish capitals
    if twice := [name for name, count in counts.items() if count > 1]:
        raise H2HTalkError(f"{file}: two models have the name {twice[0]!r}; give one of them another `name`")
    return entries


def sizes_of(entries: Iterable[Entry]) -> dict[tuple[str, str], ModelSize]:
    """Family and size by model and adapter, as :func:`h2htalk_metric.runs.model_sizes.size_key` names them."""
    return {
        (entry.model, str(entry.options.get("adapter") or "")): ModelSize(entry.family, entry.parameters)
        for entry in entries
        if entry.parameters is not None
    }


def _entry(defaults: Any, content: Any, where: str) -> Entry:
    if not isinstance(defaults, dict) or not isinstance(content, dict):
        raise H2HTalkError(f"{where}: write a mapping, for instance `model: org/name`")
    merged = {str(key).replace("-", "_"): value for key, value in (defaults | content).items()}
    own = {
        key: merged.pop(key)
        for key in ("model", "name", "family", "parameters", "bracket", "processes", "slurm")
        if key in merged
    }
    known = _RUN_OPTIONS - {"model"}
    if unknown := merged.keys() - known:
        name = min(unknown)
        raise H2HTalkError(f"{where}: unknown option {name!r}.{did_you_mean(name, known)}")
    own.setdefault("name", _short_name(str(own.get("model")), str(merged.get("adapter") or "")))
    parameters = own.get("parameters")
    if "bracket" not in own and isinstance(parameters, int | float):
        own["bracket"] = next((name for limit, name in _UPPER_LIMITS.items() if parameters < limit), "32B+")
    if own.get("bracket") not in BRACKETS:
        raise H2HTalkError(f"{where}: give its `parameters` in billions, or a `bracket`: {', '.join(BRACKETS)}")
    try:
        entry = Entry(**own, options=merged)
    except ValidationError as error:
        first = error.errors()[0]
        raise H2HTalkError(f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if not _NAME.fullmatch(entry.name) or entry.name in _OTHER_FILES:
        raise H2HTalkError(f"{where}: the name {entry.name!r} cannot be a folder; give it another `name`")
    return entry


def _short_name(*parts: str) -> str:
    return "+".join(part.rstrip("/").rpartition("/")[2].lower() for part in parts if part)
