"""Folders and result files of the probes in a run folder.

RUN/probes/safety/MODE/VARIANT/   a run over SafetyHighRisk per variant of the persona; MODE is rollout, where the model
                             hears its own earlier answers, or teacher_forced, where it hears the references
RUN/probes/instructions/     a run over InstructionFollowing
RUN/probes/conversation/     transcripts and judgements
RUN/probes/planning/         plans over CompanionPlanning, a roll-out of two turns
RUN/probes/memory/           answers to CompanionMemory, see h2htalk_metric.memory.remember
RUN/probes/NAME.json         the result; NAME.md shows it

h2htalk 0.1 used other names; its folders and files are still found.
"""

__all__ = ["PROBE_COMMANDS", "check_probe_run", "probe_folder", "read_result", "write_result"]

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import write_atomically
from h2htalk_metric.runs.run import Run

_OLD_NAMES = {"safety": "sap", "instructions": "following", "conversation": "conversing"}

PROBE_COMMANDS = (*_OLD_NAMES, "planning", "memory")
"""The probes by the names of their result files; those of ``h2htalk probe NAME``, and ``h2htalk remember``."""


def probe_folder(run: Run | str | Path, probe: str) -> Path:
    """The folder of a probe's answers; that of h2htalk 0.1 if the run has one."""
    path = Run.of(run).path
    old = path / _OLD_NAMES.get(probe, probe)
    return old if probe in _OLD_NAMES and old.exists() else path / "probes" / probe


def check_probe_run(run: Run, probe_set: str) -> None:
    """Check that a run is over a probe set.

    Raises:
        H2HTalkError: it is not.

    """
    if run.manifest["dataset"]["tasks"] != [probe_set]:
        raise H2HTalkError(f"{run.path} is not a run over {probe_set}; h2htalk probe makes such runs")


def read_result(run: Run | str | Path, probe: str) -> dict[str, Any] | None:
    """Read the result of a probe; None if the run has none.

    Raises:
        H2HTalkError: the file is damaged.

    """
    path = Run.of(run).path
    for file in (path / "probes" / f"{probe}.json", path / f"{_OLD_NAMES.get(probe, probe)}.json"):
        if file.exists():
            try:
                return _upgrade_result(json.loads(file.read_text("utf-8")))
            except ValueError:
                raise H2HTalkError(f"{file} is damaged; run the probe again, which keeps its answers") from None
    return None


def write_result(run: Run | str | Path, probe: str, result: Mapping[str, Any]) -> Path:
    """Write the result of a probe; returns the file."""
    file = Run.of(run).path / "probes" / f"{probe}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return file


def _upgrade_safety(result: Mapping[str, Any]) -> dict[str, Any]:
    """An earlier version heard the references only, and measured all scenarios together."""
    measured = {key: result[key] for key in ("variants", "agreement", "signature")}
    for key in ("figures", "tests"):
        measured[key] = {variant: {"all": of_variant} for variant, of_variant in result[key].items()}
    shared = {key: result[key] for key in ("probe", "model", "baseline", "n", "scenarios")}
    return shared | {"modes": {"teacher_forced": measured}, "mode_effect": {}}


def _upgrade_result(result: dict[str, Any]) -> dict[str, Any]:
    """Convert the results of earlier versions: renamed keys, and safety results without modes and groups."""
    if result["probe"] == "SafetyHighRisk" and "modes" not in result:
        result = _upgrade_safety(result)
    if "gaps" in result:
        result["differences"] = result.pop("gaps")
    renamed = {"mood": "emotion", "faintness": "implicitness"}
    if result["probe"] == "InstructionFollowing":
        for key in ("figures", "differences"):
            result[key] = {
                source: {renamed.get(grouping, grouping): groups for grouping, groups in by_grouping.items()}
                for source, by_grouping in result[key].items()
            }
    return result
