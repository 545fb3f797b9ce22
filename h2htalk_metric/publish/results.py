"""``.eval_results/h2htalk.yaml``: a run's figures for the model's own repository (Hub docs, eval-results)."""

__all__ = ["prepare_results"]

from datetime import datetime, timezone
from pathlib import Path

import yaml

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.generation.requests import chosen_rows
from h2htalk_datasets.prompts import SAP
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.metrics.similarity import DEFAULT_EMBEDDER
from h2htalk_metric.publish.repositories import empty_folder, repo_name
from h2htalk_metric.runs.scoring import RunScores


def prepare_results(run: Path, benchmark: str, repo: str, parent: Path) -> Path:
    """Write the figures of a scored run as the Hub reads them from a model repository.

    Args:
        run: a scored run folder.
        benchmark: ``ORG/NAME`` of the dataset repository, which holds ``eval.yaml``.
        repo: ``ORG/NAME`` of the model.
        parent: the folder ``NAME`` is made in it.

    Returns:
        The folder, with one entry per config, S times 100.

    Raises:
        H2HTalkError: the run is not scored, or its figures don't compare with others: it has only a part of its
            configs' records or of the persona, other records than those installed, or SS by another embedder.

    """
    repo_name(benchmark)
    scores = RunScores.read(run)
    _refuse_incomparable(run, scores)
    scored = datetime.fromtimestamp((run / "score.json").stat().st_mtime, timezone.utc)
    signature = scores.signature
    about = f"S x 100, embedder {signature['embedder']}, h2htalk {signature['h2htalk']}, data {signature['dataset']}"
    row = scores.row()
    entries = [
        {
            "dataset": {"id": benchmark, "task_id": task},
            "value": round(value, 2),
            "date": scored.date().isoformat(),
            "notes": about,
        }
        for task in TASKS
        if (value := row[task]) is not None
    ]
    folder = empty_folder(parent / repo_name(repo))
    (folder / ".eval_results").mkdir()
    (folder / ".eval_results" / "h2htalk.yaml").write_text(yaml.safe_dump(entries, sort_keys=False), "utf-8")
    return folder


def _refuse_incomparable(run: Path, scores: RunScores) -> None:
    """The Hub ranks what it is given: only what was asked and scored in the same way may stand beside each other."""
    dataset, embedder = scores.manifest["dataset"], scores.signature["embedder"]
    if dataset["limit"] or set(scores.manifest["prompts"]["sap"]) != set(SAP):
        raise H2HTalkError(f"{run} did not ask whole configs with the whole persona, so its figures don't compare")
    if embedder != DEFAULT_EMBEDDER:
        raise H2HTalkError(
            f"{run} has its SS by {embedder}, so its figures don't compare; score it with {DEFAULT_EMBEDDER}"
        )
    here = fingerprint(chosen_rows(",".join(dataset["tasks"])))
    if dataset["fingerprint"] != here:
        raise H2HTalkError(
            f"{run} was made on other records than those installed (fingerprint {dataset['fingerprint'][:12]}, here "
            f"{here[:12]}); publish it with its own version of h2htalk, for that version's dataset"
        )
