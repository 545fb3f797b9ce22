"""Score a run folder: predictions.jsonl in, scores.parquet and score.json out."""

__all__ = ["ANSWERS", "STAMP", "RunScores", "measure_run", "predictions_of", "records_of", "score_run"]

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from h2htalk_datasets.answer_format import contract_fault
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import write_atomically
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.generation.run_folder import RunFolder
from h2htalk_datasets.loading import load
from h2htalk_datasets.probes import PROBES
from h2htalk_datasets.schema import Record
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.metrics.composite import COMPONENTS, Scores, score
from h2htalk_metric.metrics.memory_labels import contents, label_agreement
from h2htalk_metric.metrics.similarity import DEFAULT_EMBEDDER
from h2htalk_metric.stats.aggregate import aggregate

_SYNTHESIS = "RecollectionSynthesis"
STAMP = "scoring"
"""The key under which both files of a scoring bear a digest of its summary."""
ANSWERS = "answers"
"""The key under which ``score.json`` bears a digest of what was scored."""


@dataclass(frozen=True)
class RunScores:
    """A scored run.

    Attributes:
        items: a row per record: id, task, language, the components, composite, empty, finish_reason, new_tokens,
            contract (how the answer breaks its task's form, or None), and for RecollectionSynthesis
            content_composite, category_agreement and importance_error.
        signature: of the whole result.
        manifest: the run's.

    """

    items: pd.DataFrame
    signature: dict[str, Any]
    manifest: dict[str, Any]

    @classmethod
    def read(cls, folder: str | Path) -> "RunScores":
        """Read the scores that :func:`score_run` left in a run folder.

        Raises:
            H2HTalkError: there are none, they can't be read, the two files are not of one scoring, or the run's answers
                are others by now.

        """
        run = RunFolder(folder)
        manifest = run.manifest()
        items, summary = _stored(run)
        scored, now = summary.get(ANSWERS), _answers(run)
        if scored and now and scored != now:
            raise H2HTalkError(f"the scores in {folder} are of other answers; run: h2htalk score {folder}")
        return cls(items, summary["signature"], manifest)

    @classmethod
    def stored(cls, folder: str | Path) -> "RunScores":
        """The same, whatever the run's answers are by now."""
        run = RunFolder(folder)
        manifest = run.manifest()
        items, summary = _stored(run)
        return cls(items, summary["signature"], manifest)

    @property
    def model(self) -> str:
        """The model's name, with its LoRA adapter where it has one; from outside, so escape it where it is shown."""
        model = self.manifest["model"]
        return f"{model['name']} + {model['adapter']}" if model.get("adapter") else str(model["name"])

    def by_task(self) -> pd.DataFrame:
        """Means per task, in the table's order.

        Columns: components and composite 0..1, `kept` (share of answers that keep their form), and the counts n,
        empty, truncated.
        """
        grouped = self.items.groupby("task")
        table = grouped[[*COMPONENTS, "composite"]].mean()
        table["kept"] = grouped["contract"].agg(lambda faults: float(faults.isna().mean()))
        table["n"], table["empty"] = grouped.size(), grouped["empty"].sum()
        table["truncated"] = grouped["finish_reason"].agg(lambda reasons: int((reasons == "length").sum()))
        return table.loc[[task for task in TASKS if task in table.index]]

    def composites(self) -> dict[str, np.ndarray]:
        """S of every item by task, 0..1, in the records' order."""
        return {str(task): group["composite"].to_numpy() for task, group in self.items.groupby("task")}

    def row(self) -> dict[str, float | None]:
        """The run as a row of Table 2, times 100: eleven configs, three averages, Overall."""
        return aggregate({str(task): 100 * value for task, value in self.by_task()["composite"].items()})

    def synthesis(self) -> dict[str, Any] | None:
        """RecollectionSynthesis without labels; None where the run did not ask it.

        Means of content_composite (0..1) and, over the `compared` answers whose memories can be read,
        category_agreement (0..1) and importance_error (0..2), which are None where there is no such answer.
        """
        rows = self.items[self.items["task"] == _SYNTHESIS]
        if rows.empty:
            return None
        labels, compared = ["category_agreement", "importance_error"], int(rows["category_agreement"].notna().sum())
        means = rows[labels].mean().to_dict() if compared else dict.fromkeys(labels)
        return {"content_composite": float(rows["content_composite"].mean()), **means, "compared": compared}

    def summary(self) -> dict[str, Any]:
        """What ``score.json`` holds: signature, :meth:`row`, tasks (:meth:`by_task`) and :meth:`synthesis`."""
        tasks = self.by_task().to_dict("index")
        return {"signature": self.signature, "row": self.row(), "tasks": tasks, "synthesis": self.synthesis()}


def measure_run(folder: str | Path, embedder: str = DEFAULT_EMBEDDER) -> RunScores:
    """Score all predictions of a complete run; writes nothing.

    Args:
        folder: the run folder.
        embedder: see :func:`h2htalk_metric.metrics.similarity.load_embedder`.

    Raises:
        H2HTalkError: the run is incomplete, or its records are not those of the installed dataset.

    """
    run = RunFolder(folder)
    manifest = run.manifest()
    predictions = predictions_of(run)
    records = records_of(predictions, manifest)
    texts = [line["prediction"] for line in predictions]
    scores = _score(texts, records, embedder)
    items = pd.DataFrame(scores.rows())
    for place, column in enumerate(("id", "task", "language")):
        items.insert(place, column, [record[column] for record in records])
    items["empty"] = scores.empty
    items["finish_reason"] = [line.get("finish_reason") for line in predictions]
    items["new_tokens"] = [line.get("new_tokens") for line in predictions]
    items["contract"] = [
        contract_fault(Record.model_validate(record), text) for record, text in zip(records, texts, strict=True)
    ]
    _add_synthesis(items, texts, records, embedder)
    signature = scores.signature | {
        "dataset": manifest["dataset"]["fingerprint"][:12],
        "prompts": manifest["prompts"]["hash"][:12],
        "seed": manifest["generation"]["seed"],
    }
    return RunScores(items, signature, manifest)


def score_run(folder: str | Path, embedder: str = DEFAULT_EMBEDDER) -> RunScores:
    """Score a complete run as :func:`measure_run` does, and write ``scores.parquet`` and ``score.json`` beside it.

    Both files bear one stamp, so that of a scoring that is broken off between them no reader takes the halves; and
    ``score.json`` bears a digest of the answers, so that nobody takes them for the scores of others.
    """
    path = Path(folder)
    answers = _answers(RunFolder(path))
    result = measure_run(folder, embedder)
    summary = result.summary()
    stamp = hashlib.sha256(json.dumps(summary).encode()).hexdigest()[:16]
    items = result.items.copy(deep=False)
    items.attrs[STAMP] = stamp
    write_atomically(path / "scores.parquet", items.to_parquet(index=False))
    content = json.dumps({STAMP: stamp, ANSWERS: answers, **summary}, indent=1, allow_nan=False)
    write_atomically(path / "score.json", content + "\n")
    return result


def _stored(run: RunFolder) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The items of ``scores.parquet`` and what ``score.json`` holds, if they belong together."""
    try:
        items = pd.read_parquet(run.path / "scores.parquet")
        summary = json.loads((run.path / "score.json").read_text("utf-8"))
        stamp, _ = summary.get(STAMP), summary["signature"]
    except FileNotFoundError:
        raise H2HTalkError(f"{run.path} is not scored yet; run: h2htalk score {run.path}") from None
    except (OSError, ValueError, KeyError) as error:
        raise H2HTalkError(f"the scores in {run.path} can't be read ({error}); run: h2htalk score {run.path}") from None
    if items.attrs.get(STAMP) != stamp:
        raise H2HTalkError(
            f"scores.parquet and score.json in {run.path} are of two scorings, one of which was broken off; "
            f"run: h2htalk score {run.path}"
        )
    return items, summary


def _answers(run: RunFolder) -> str | None:
    """A digest of the run's answers, or None where the file isn't there any more."""
    if not run.predictions_file.exists():
        return None
    return hashlib.sha256(run.predictions_file.read_bytes()).hexdigest()[:16]


def _score(texts: list[str], records: list[dict[str, Any]], embedder: str) -> Scores:
    references = [record["reference"] for record in records]
    return score(texts, references, language=[record["language"] for record in records], embedder=embedder)


def _add_synthesis(items: pd.DataFrame, texts: list[str], records: list[dict[str, Any]], embedder: str) -> None:
    chosen = [place for place, record in enumerate(records) if record["task"] == _SYNTHESIS]
    for column in ("content_composite", "category_agreement", "importance_error"):
        items[column] = np.nan
    if not chosen:
        return
    bare = [records[place] | {"reference": contents(records[place]["reference"])} for place in chosen]
    items.loc[chosen, "content_composite"] = _score([contents(texts[i]) for i in chosen], bare, embedder).composite
    for place in chosen:
        agreement = label_agreement(texts[place], records[place]["reference"])
        if agreement:
            items.loc[place, ["category_agreement", "importance_error"]] = list(agreement)


def predictions_of(run: RunFolder) -> list[dict[str, Any]]:
    """The prediction lines of a complete run, in the records' order."""
    if not run.predictions_file.exists():
        raise H2HTalkError(f"{run.path} is not complete; run the same `h2htalk generate` command again to finish it")
    predictions = []
    for number, line in enumerate(run.predictions_file.read_bytes().splitlines(), 1):
        try:
            prediction = json.loads(line)
            whole = isinstance(prediction["prediction"], str) and {"id", "task"} <= prediction.keys()
        except (ValueError, KeyError, TypeError):
            whole = False
        if not whole:
            raise H2HTalkError(
                f"{run.predictions_file}, line {number}: not a prediction; run: h2htalk merge {run.path}"
            )
        predictions.append(prediction)
    return predictions


def records_of(predictions: list[dict[str, Any]], manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The record of each prediction; the installed dataset must be the run's."""
    tasks = {line["task"] for line in predictions}
    if tasks & set(PROBES):
        raise H2HTalkError("answers to a probe set have no S and no report of their own; see h2htalk sap and follow")
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
