"""``.eval_results/h2htalk.yaml``: the scores of a run for the model's own repository (Hub docs, eval-results)."""

__all__ = ["prepare_results"]

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import yaml

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.generation.requests import chosen_rows
from h2htalk_datasets.languages import Language
from h2htalk_datasets.prompts import SAP
from h2htalk_metric.metrics.similarity import DEFAULT_EMBEDDER
from h2htalk_metric.publish.repositories import complete_languages, empty_folder, name_of_repo
from h2htalk_metric.runs.run import Run
from h2htalk_metric.runs.scoring import RunScores, read_scores


def prepare_results(run: Run | str | Path, benchmark: str, repo: str, parent: Path) -> Path:
    """Write the scores of a run in the form that the Hub reads from a model repository.

    Args:
        run: a scored run, or its folder.
        benchmark: ``ORG/NAME`` of the dataset repository with ``eval.yaml``.
        repo: ``ORG/NAME`` of the model.
        parent: the folder ``NAME`` is created in it.

    Returns:
        The folder, with one entry per config, S times 100.

    Raises:
        H2HTalkError: the run is not scored, or its scores cannot be compared with others: it has only some of the
            records of its configs or only a part of the persona, other records than those installed, or SS by another
            embedder.

    """
    name_of_repo(benchmark)
    run, complete = Run.of(run), complete_languages()
    parts = [(language, run.by_language[language.code]) for language in complete if language.code in run.languages]
    if not parts:
        raise H2HTalkError(f"{run.path} has no language whose records are complete, so the Hub has no benchmark for it")
    entries = [entry for language, part in parts for entry in _entries(part, language, benchmark)]
    folder = empty_folder(parent / name_of_repo(repo))
    (folder / ".eval_results").mkdir()
    (folder / ".eval_results" / "h2htalk.yaml").write_text(yaml.safe_dump(entries, sort_keys=False), "utf-8")
    return folder


def _entries(run: Run, language: Language, benchmark: str) -> list[dict[str, Any]]:
    """One entry per config of a run in one language."""
    scores = read_scores(run)
    _check_comparable(run, scores, language.code)
    scored = datetime.fromtimestamp((run.path / "score.json").stat().st_mtime, timezone.utc)
    signature = scores.signature
    notes = f"S x 100, embedder {signature['embedder']}, h2htalk {signature['h2htalk']}, data {signature['dataset']}"
    return [
        {
            "dataset": {"id": benchmark, "task_id": f"{task}{language.config_suffix}"},
            "value": round(100 * float(composite), 2),
            "date": scored.date().isoformat(),
            "notes": notes,
        }
        for task, composite in scores.by_task()["composite"].items()
    ]


def _check_comparable(run: Run, scores: RunScores, language: str) -> None:
    """The Hub ranks all results together, so prompts, records and scoring must be those of every other result."""
    dataset, embedder = run.manifest["dataset"], scores.signature["embedder"]
    if dataset["limit"] or set(run.manifest["prompts"]["sap"]) != set(SAP):
        raise H2HTalkError(f"{run.path} does not have full configs and the full persona; run without --limit and --sap")
    if embedder != DEFAULT_EMBEDDER:
        raise H2HTalkError(f"{run.path} has its SS by {embedder}; score it with {DEFAULT_EMBEDDER}, as all results are")
    installed = fingerprint(chosen_rows(",".join(dataset["tasks"]), language=language))
    if dataset["fingerprint"] != installed:
        raise H2HTalkError(
            f"{run.path} has other records than those installed (fingerprint {dataset['fingerprint'][:12]}, here "
            f"{installed[:12]}); publish it with its own version of h2htalk, for that version's dataset"
        )
