"""Score a run folder: ``predictions.jsonl`` in, ``scores.parquet`` and ``score.json`` out."""

__all__ = ["RunScores", "measure_run", "read_scores", "read_stored_scores", "score_run", "scored_rows"]

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import write_atomically
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.metrics.composite import COMPONENTS
from h2htalk_metric.metrics.similarity import DEFAULT_EMBEDDER, Embedder
from h2htalk_metric.runs.run import Run, cached_per_run
from h2htalk_metric.runs.scored_items import CHARACTER_COMPOSITE, REFERENCES, SYNTHESIS, score_answers
from h2htalk_metric.stats.aggregate import aggregate
from h2htalk_metric.stats.clusters import ClusterSums
from h2htalk_metric.stats.intervals import Interval, row_intervals

_LANGUAGES = "languages"
SCORING_ID = "scoring_id"
"""Key of both files of one scoring; different ids mean that a write was interrupted."""
ANSWERS_DIGEST = "answers_digest"
"""Key in ``score.json``: a digest of the answers that were scored."""


@dataclass(frozen=True)
class RunScores:
    """The scores of a run, or of its part in one language.

    Attributes:
        items: one row per record. Of the record: id, task, language, relationship, need, difficulty, emotion, turns
            (messages in its history), reference_words. Of the answer: the seven components and composite (0..1),
            empty, finish_reason, new_tokens, format_error (text or None), fact_errors (facts that contradict the
            prompt, text or None; English only). For RecollectionSynthesis also content_composite (0..1),
            category_agreement (0..1) and importance_error (0..2). For Chinese also character_composite (0..1): as
            composite, with characters in place of words.
        signature: every choice that changes a number.
        manifest: content of ``run.json``.

    """

    items: pd.DataFrame
    signature: dict[str, Any]
    manifest: dict[str, Any]

    def by_task(self) -> pd.DataFrame:
        """Means per task, in the table's order.

        Columns: components and composite (0..1), format_rate (share of answers that follow their task's format), and
        the counts n, empty and truncated.
        """
        grouped = self.items.groupby("task")
        table = grouped[[*COMPONENTS, "composite"]].mean()
        table["format_rate"] = grouped["format_error"].agg(lambda errors: float(errors.isna().mean()))
        table["n"], table["empty"] = grouped.size(), grouped["empty"].sum()
        table["truncated"] = grouped["finish_reason"].agg(lambda reasons: int((reasons == "length").sum()))
        return table.loc[[task for task in TASKS if task in table.index]]

    def composites(self) -> dict[str, np.ndarray]:
        """S of every item by task, 0..1, in the order of the records."""
        return self._by_task("composite")

    def clusters(self) -> dict[str, np.ndarray]:
        """The relationship of every item by task, in the same order."""
        return self._by_task("relationship")

    @cached_property
    def cluster_sums(self) -> ClusterSums:
        """S times 100, summed per relationship and config."""
        values = {task: 100 * composites for task, composites in self.composites().items()}
        return ClusterSums.of(values, self.clusters())

    def intervals(self) -> dict[str, Interval]:
        """95% interval of every cell of :meth:`row`, on the same scale, clustered by relationship."""
        return row_intervals(self.cluster_sums, bounds=(0, 100))

    def row(self) -> dict[str, float | None]:
        """The run as a row of Table 2, times 100: eleven configs, three averages, Overall."""
        return aggregate({str(task): 100 * value for task, value in self.by_task()["composite"].items()})

    def memory_labels(self) -> dict[str, Any] | None:
        """RecollectionSynthesis without its labels; None if the run does not contain it.

        Means of content_composite (0..1) and, over the `compared` answers whose memories can be read,
        category_agreement (0..1) and importance_error (0..2), which are None if there is no such answer.
        """
        rows = self.items[self.items["task"] == SYNTHESIS]
        if rows.empty:
            return None
        labels, compared = ["category_agreement", "importance_error"], int(rows["category_agreement"].notna().sum())
        means = rows[labels].mean().to_dict() if compared else dict.fromkeys(labels)
        return {"content_composite": float(rows["content_composite"].mean()), **means, "compared": compared}

    def summary(self) -> dict[str, Any]:
        """Content of ``score.json``: signature, :meth:`row`, tasks (:meth:`by_task`) and :meth:`memory_labels`.

        For Chinese also character_row: as :meth:`row`, with characters in place of words.
        """
        tasks = self.by_task().to_dict("index")
        return {
            "signature": self.signature,
            "row": self.row(),
            "tasks": tasks,
            "memory_labels": self.memory_labels(),
            **({"character_row": characters} if (characters := self.character_row()) else {}),
        }

    def character_row(self) -> dict[str, float | None]:
        """As :meth:`row`, with characters in place of jieba's words; empty if the language is not Chinese."""
        if CHARACTER_COMPOSITE not in self.items:
            return {}
        return aggregate({task: 100 * float(s.mean()) for task, s in self._by_task(CHARACTER_COMPOSITE).items()})

    def _by_task(self, column: str) -> dict[str, np.ndarray]:
        groups = {str(task): rows[column].to_numpy() for task, rows in self.items.groupby("task")}
        return {task: groups[task] for task in TASKS if task in groups}


def score_run(
    run: Run | str | Path, embedder: str | Embedder = DEFAULT_EMBEDDER, references: str = "first"
) -> dict[str, RunScores]:
    """Score a complete run and write ``scores.parquet`` and ``score.json`` into its folder.

    Both files carry the same scoring id, so an interrupted write is detected. ``score.json`` carries a digest of the
    answers, so scores of other answers are detected.

    Args:
        run: the run, or its folder.
        embedder: see :func:`h2htalk_metric.metrics.similarity.load_embedder`.
        references: one of :data:`REFERENCES`. "all" stands in the signature.

    Returns:
        The scores by language. ``score.json`` of a run in several languages has one summary for each of them.

    Raises:
        H2HTalkError: the run is not complete, the installed dataset is not the run's, or `references` is unknown.

    """
    run = Run.of(run)
    answers_digest = _answers_digest(run)
    results = {code: measure_run(part, embedder, references) for code, part in run.by_language.items()}
    summaries = {code: result.summary() for code, result in results.items()}
    summary = {_LANGUAGES: summaries} if len(summaries) > 1 else next(iter(summaries.values()))
    scoring_id = hashlib.sha256(json.dumps(summary).encode()).hexdigest()[:16]
    items = pd.concat([result.items for result in results.values()], ignore_index=True)
    items.attrs[SCORING_ID] = scoring_id
    write_atomically(run.path / "scores.parquet", items.to_parquet(index=False))
    content = json.dumps({SCORING_ID: scoring_id, ANSWERS_DIGEST: answers_digest, **summary}, indent=1, allow_nan=False)
    write_atomically(run.path / "score.json", content + "\n")
    return results


def measure_run(
    run: Run | str | Path, embedder: str | Embedder = DEFAULT_EMBEDDER, references: str = "first"
) -> RunScores:
    """Score a complete run of one language as :func:`score_run` does, but write nothing."""
    run = Run.of(run)
    run.check_one_language()
    if run.is_probe_run:
        raise H2HTalkError(f"{run.path} answers a probe set, which has no S; see h2htalk probe --help")
    if references not in REFERENCES:
        raise H2HTalkError(f"references is {references!r}; it is one of: {', '.join(REFERENCES)}")
    items, signature = score_answers(run.predictions, run.records, embedder=embedder, references=references)
    signature |= {
        "dataset": run.manifest["dataset"]["fingerprint"][:12],
        "prompts": run.manifest["prompts"]["hash"][:12],
        "seed": run.manifest["generation"]["seed"],
    }
    return RunScores(items, signature, run.manifest)


@cached_per_run
def read_scores(run: Run) -> RunScores:
    """Read the scores that :func:`score_run` wrote, of a run of one language or of its part in one.

    Raises:
        H2HTalkError: the run has several languages, there are no scores, they cannot be read, the two files are not of
            one scoring, or the answers have changed since.

    """
    run.check_one_language()
    items, summary = _stored(run)
    scored, current = summary.get(ANSWERS_DIGEST), _answers_digest(run)
    if scored and current and scored != current:
        raise H2HTalkError(
            f"the answers in {run.path} have changed since they were scored; run: h2htalk score {run.path}"
        )
    return RunScores(items, summary["signature"], run.manifest)


def scored_rows(run: Run | str | Path) -> list[dict[str, Any]]:
    """The rows of :attr:`RunScores.items`, one per answer, in the order of :attr:`Run.predictions`.

    Raises:
        H2HTalkError: as :func:`read_scores`, or the scores are of other records than the answers.

    """
    run = Run.of(run)
    items = read_scores(run).items
    if [line["id"] for line in run.predictions] != items["id"].tolist():
        raise H2HTalkError(f"{run.path} has scores of other records than its answers; run: h2htalk score {run.path}")
    return items.to_dict("records")


def read_stored_scores(run: Run | str | Path) -> tuple[RunScores, dict[str, Any]]:
    """Read scores and the content of ``score.json`` (of one language) without a check of the answers."""
    run = Run.of(run)
    run.check_one_language()
    items, summary = _stored(run)
    return RunScores(items, summary["signature"], run.manifest), summary


def _stored(run: Run) -> tuple[pd.DataFrame, dict[str, Any]]:
    try:
        items = pd.read_parquet(run.path / "scores.parquet")
        summary = _upgrade_summary(_of_languages(json.loads((run.path / "score.json").read_text("utf-8")), run))
        if "signature" not in summary:
            raise ValueError("score.json has no signature")
    except FileNotFoundError:
        raise H2HTalkError(f"{run.path} is not scored yet; run: h2htalk score {run.path}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise H2HTalkError(
            f"the scores in {run.path} cannot be read ({error}); run: h2htalk score {run.path}"
        ) from None
    items = _upgrade_items(items)
    if items.attrs.get(SCORING_ID) != summary.get(SCORING_ID):
        raise H2HTalkError(
            f"scores.parquet and score.json in {run.path} are from two scorings, one of which was interrupted; "
            f"run: h2htalk score {run.path}"
        )
    return _items_of_language(items, run), summary


def _items_of_language(items: pd.DataFrame, run: Run) -> pd.DataFrame:
    """The rows of the run's language; files of a run in one language are of that language."""
    if "language" not in items or set(items["language"]) <= set(run.languages):
        return items
    own = items[items["language"].isin(run.languages)]
    if CHARACTER_COMPOSITE in own and own[CHARACTER_COMPOSITE].isna().all():
        own = own.drop(columns=CHARACTER_COMPOSITE)
    return own.reset_index(drop=True)


def _of_languages(summary: dict[str, Any], run: Run) -> dict[str, Any]:
    """The part of ``score.json`` of the run's language; only runs of several languages have parts."""
    if _LANGUAGES not in summary:
        return summary
    shared = {key: value for key, value in summary.items() if key != _LANGUAGES}
    return shared | summary[_LANGUAGES][run.languages[0]]


def _upgrade_summary(summary: dict[str, Any]) -> dict[str, Any]:
    """Rename the keys of ``score.json`` that h2htalk 0.1 wrote."""
    renamed = {"scoring": SCORING_ID, "answers": ANSWERS_DIGEST, "synthesis": "memory_labels"}
    summary = {renamed.get(key, key): value for key, value in summary.items()}
    for figures in summary.get("tasks", {}).values():
        if "kept" in figures:
            figures["format_rate"] = figures.pop("kept")
    return summary


def _upgrade_items(items: pd.DataFrame) -> pd.DataFrame:
    """Rename the columns of ``scores.parquet`` that h2htalk 0.1 wrote, and add the relationship, which ids hold."""
    upgraded = items.rename(columns={"contract": "format_error"})
    upgraded.attrs = {SCORING_ID: items.attrs.get(SCORING_ID, items.attrs.get("scoring"))}
    if "relationship" not in upgraded:
        upgraded["relationship"] = upgraded["id"].str.rsplit("-", n=2).str[0]
    return upgraded


def _answers_digest(run: Run) -> str | None:
    """Digest of ``predictions.jsonl``; None if the file does not exist any more."""
    if not run.complete:
        return None
    return hashlib.sha256(run.folder.predictions_file.read_bytes()).hexdigest()[:16]
