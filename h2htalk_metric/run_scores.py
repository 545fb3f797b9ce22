"""Score a run folder: predictions.jsonl in, scores.parquet and score.json out."""

__all__ = ["RunScores", "score_run"]

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from h2htalk_datasets.dataset import load
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.generation.run_folder import RunFolder, write_atomically
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.aggregate import aggregate
from h2htalk_metric.composite import COMPONENTS, score
from h2htalk_metric.semantic import DEFAULT_EMBEDDER


@dataclass(frozen=True)
class RunScores:
    """A scored run.

    Attributes:
        items: a row per record: id, task, language, the components, composite, empty, finish_reason, new_tokens.
        signature: of the whole result.
        manifest: the run's.

    """

    items: pd.DataFrame
    signature: dict[str, Any]
    manifest: dict[str, Any]

    @classmethod
    def read(cls, folder: str | Path) -> "RunScores":
        """Read the scores that :func:`score_run` left in a run folder."""
        run = RunFolder(folder)
        manifest = run.manifest()
        try:
            items = pd.read_parquet(run.path / "scores.parquet")
            signature = json.loads((run.path / "score.json").read_text("utf-8"))["signature"]
        except FileNotFoundError:
            raise H2HTalkError(f"{folder} is not scored yet; run: h2htalk score {folder}") from None
        except (OSError, ValueError, KeyError) as error:
            raise H2HTalkError(f"the scores in {folder} can't be read ({error}); run: h2htalk score {folder}") from None
        return cls(items, signature, manifest)

    def by_task(self) -> pd.DataFrame:
        """Means per task, in the table's order: components and composite 0..1, and the counts n, empty, truncated."""
        grouped = self.items.groupby("task")
        table = grouped[[*COMPONENTS, "composite"]].mean()
        table["n"], table["empty"] = grouped.size(), grouped["empty"].sum()
        table["truncated"] = grouped["finish_reason"].agg(lambda reasons: int((reasons == "length").sum()))
        return table.loc[[task for task in TASKS if task in table.index]]

    def row(self) -> dict[str, float | None]:
        """The run as a row of Table 2, times 100: eleven configs, three averages, Overall."""
        return aggregate({str(task): 100 * value for task, value in self.by_task()["composite"].items()})


def score_run(folder: str | Path, embedder: str = DEFAULT_EMBEDDER) -> RunScores:
    """Score all predictions of a complete run and write ``scores.parquet`` and ``score.json`` beside them.

    Args:
        folder: the run folder.
        embedder: see :func:`h2htalk_metric.semantic.load_embedder`.

    Raises:
        H2HTalkError: the run is incomplete, or its records are not those of the installed dataset.

    """
    run = RunFolder(folder)
    manifest = run.manifest()
    predictions = _predictions(run)
    records = _records(predictions, manifest)
    scores = score(
        [line["prediction"] for line in predictions],
        [record["reference"] for record in records],
        language=[record["language"] for record in records],
        embedder=embedder,
    )
    items = pd.DataFrame(scores.rows())
    items.insert(0, "id", [record["id"] for record in records])
    items.insert(1, "task", [record["task"] for record in records])
    items.insert(2, "language", [record["language"] for record in records])
    items["empty"] = scores.empty
    items["finish_reason"] = [line.get("finish_reason") for line in predictions]
    items["new_tokens"] = [line.get("new_tokens") for line in predictions]
    signature = scores.signature | {
        "dataset": manifest["dataset"]["fingerprint"][:12],
        "prompts": manifest["prompts"]["hash"][:12],
        "seed": manifest["generation"]["seed"],
    }
    result = RunScores(items, signature, manifest)
    items.to_parquet(run.path / "scores.parquet", index=False)
    summary = {"signature": signature, "row": result.row(), "tasks": result.by_task().to_dict("index")}
    write_atomically(run.path / "score.json", json.dumps(summary, indent=1) + "\n")
    return result


def _predictions(run: RunFolder) -> list[dict[str, Any]]:
    if not run.predictions_file.exists():
        raise H2HTalkError(f"{run.path} is not complete; run the same `h2htalk generate` command again to finish it")
    lines = run.predictions_file.read_text("utf-8").splitlines()
    predictions = []
    for number, line in enumerate(lines, 1):
        try:
            predictions.append(json.loads(line))
            predictions[-1]["id"], predictions[-1]["prediction"], predictions[-1]["task"]
        except (ValueError, KeyError, TypeError):
            raise H2HTalkError(
                f"{run.predictions_file}, line {number}: not a prediction; run: h2htalk merge {run.path}"
            ) from None
    return predictions


def _records(predictions: list[dict[str, Any]], manifest: dict[str, Any]) -> list[dict[str, Any]]:
    tasks = {line["task"] for line in predictions}
    known = {row["id"]: row for task in TASKS if task in tasks for row in load(task)}
    foreign = [line["id"] for line in predictions if line["id"] not in known]
    if foreign:
        raise H2HTalkError(f"{len(foreign)} ids are not in the installed dataset, the first: {foreign[0]}")
    records = [known[line["id"]] for line in predictions]
    if len(records) != manifest["dataset"]["n"]:
        raise H2HTalkError(f"{len(records)} predictions but the run's manifest says {manifest['dataset']['n']}")
    if fingerprint(records) != manifest["dataset"]["fingerprint"]:
        raise H2HTalkError("the run was made with another version of the dataset; score it with that version installed")
    return records
