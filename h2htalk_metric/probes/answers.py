"""A run over a probe set: is it one, and its answers."""

__all__ = ["Row", "answered", "is_probe_run"]

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.generation.run import rows_of_run
from h2htalk_datasets.generation.run_folder import RunFolder
from h2htalk_datasets.probes import PROBES
from h2htalk_metric.runs.scoring import predictions_of

Row = Mapping[str, Any]
"""A record of a probe set."""


def is_probe_run(manifest: Mapping[str, Any]) -> bool:
    """Whether a run's manifest is of a probe set."""
    return any(task in PROBES for task in manifest["dataset"]["tasks"])


def answered(folder: str | Path) -> list[tuple[Row, dict[str, Any]]]:
    """The records of a complete run over a probe set with their prediction lines, in the set's order.

    Raises:
        H2HTalkError: the run is incomplete, or made with another version of the set.

    """
    run = RunFolder(folder)
    manifest = run.manifest()
    if not is_probe_run(manifest):
        raise H2HTalkError(f"{folder} is no run over a probe set; those are made by h2htalk sap and h2htalk follow")
    lines, rows = predictions_of(run), rows_of_run(manifest)
    same = [row["id"] for row in rows] == [line["id"] for line in lines]
    if not same or fingerprint(rows) != manifest["dataset"]["fingerprint"]:
        raise H2HTalkError(f"{folder} was made with another version of the probe set; install that version")
    return list(zip(rows, lines, strict=True))
