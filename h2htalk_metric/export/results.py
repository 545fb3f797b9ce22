"""The results of a scored run for other tools: every answer with its prompt, scores, judgements and reviews."""

__all__ = ["RunResults", "ScoredAnswer", "read_results"]

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from hashlib import sha256
from typing import Any
from uuid import UUID

import pandas as pd

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.engines.base import Prompt
from h2htalk_datasets.generation.requests import prompt_of, prompts_hash, templates_of
from h2htalk_datasets.languages import LANGUAGES
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.judge.judge_items import judge_items
from h2htalk_metric.judge.judged_run import JudgedRun, read_judged
from h2htalk_metric.judge.judgement import Judgement, judged_rubrics, valid_judgements
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.judge.panel_scores import other_task_scores
from h2htalk_metric.review.reviews import Review, Reviews
from h2htalk_metric.review.scores import human_scores, stale_items
from h2htalk_metric.runs.run import Run
from h2htalk_metric.runs.scoring import RunScores, read_scores, scored_rows


@dataclass(frozen=True)
class ScoredAnswer:
    """One answer of a run; its texts are untrusted.

    Attributes:
        record: of the dataset.
        prompt: what the model was sent.
        prediction: line of ``predictions.jsonl``.
        references: the answer was scored against the best of them.
        scores: row of :attr:`RunScores.items`.
        judged: row of :func:`h2htalk_metric.judge.panel_scores.panel_scores`; for the tasks of Eq. 3 that of
            :attr:`JudgedRun.items`; None if nobody judged the task. Missing numbers are NaN.
        judgements: one per judge, also those without scores.
        human_score: of people, 0..5; None if the answer has none.
        reviews: the marks of each rater.

    """

    record: Mapping[str, Any]
    prompt: Prompt
    prediction: Mapping[str, Any]
    references: tuple[str, ...]
    scores: Mapping[str, Any]
    judged: Mapping[str, Any] | None
    judgements: tuple[Judgement, ...]
    human_score: float | None
    reviews: tuple[Review, ...]


@dataclass(frozen=True)
class RunResults:
    """The results of a run in one language.

    Attributes:
        run: the run, or its part in the language.
        language: code of the language.
        scores: S and its components.
        judged: the tasks of Eq. 3 with J; None if nobody judged them.
        other_judged: rows of the other judged tasks, see :func:`h2htalk_metric.judge.panel_scores.other_task_scores`.
        panel: who judged, and how; None without judges.
        answers: in the order of the records.

    """

    run: Run
    language: str
    scores: RunScores
    judged: JudgedRun | None
    other_judged: pd.DataFrame | None
    panel: Panel | None
    answers: tuple[ScoredAnswer, ...]

    @property
    def suffix(self) -> str:
        """What follows the name of a task in the name of its config: nothing in English."""
        return LANGUAGES[self.language].config_suffix

    @cached_property
    def uuid(self) -> str:
        """Version 4 UUID from a digest of manifest and answers: judging and scoring again do not change it."""
        answers = [(answer.prompt.id, answer.prediction["prediction"]) for answer in self.answers]
        digest = sha256(json.dumps([self.run.manifest, answers], sort_keys=True).encode()).digest()
        return str(UUID(bytes=digest[:16], version=4))

    @property
    def answered(self) -> datetime:
        """When the last answer was written, UTC."""
        return datetime.fromtimestamp(self.run.folder.predictions_file.stat().st_mtime, timezone.utc)


def read_results(run: Run) -> list[RunResults]:
    """The results of a scored run by language, in the order of :attr:`Run.languages`.

    Raises:
        H2HTalkError: the run answers a probe set, is not scored or not complete, or the installed dataset or its
            prompts are not the run's.

    """
    if run.is_probe_run:
        raise H2HTalkError(f"{run.path} answers a probe set, which has no S; export a run of the eleven tasks")
    return [_of_language(part, language) for language, part in run.by_language.items()]


def _of_language(run: Run, language: str) -> RunResults:
    scores, judged, other_judged = read_scores(run), read_judged(run), other_task_scores(run)
    return RunResults(
        run, language, scores, judged, other_judged, Panel.read(run.path), _answers(run, judged, other_judged)
    )


def _answers(run: Run, judged: JudgedRun | None, other_judged: pd.DataFrame | None) -> tuple[ScoredAnswer, ...]:
    tables = [table for table in (judged.items if judged else None, other_judged) if table is not None]
    rows = {row["id"]: row for table in tables for row in table.to_dict("records")}
    judgements, people, reviews = _judgements(run), human_scores(run), _reviews(run)
    all_references = read_scores(run).signature.get("references") == "all"
    return tuple(
        ScoredAnswer(
            record,
            prompt,
            prediction,
            (record["reference"], *(record["alternatives"] if all_references else ())),
            scores,
            rows.get(prompt.id),
            tuple(judgements.get(prompt.id, ())),
            people.get(prompt.id),
            reviews.get(prompt.id, ()),
        )
        for record, prompt, prediction, scores in zip(
            run.records, _prompts(run), run.predictions, scored_rows(run), strict=True
        )
    )


def _prompts(run: Run) -> list[Prompt]:
    """What the model was sent, rendered again: a run folder has only its hash."""
    manifest, templates = run.manifest, templates_of(run.manifest)
    principles, thinking_tokens = set(manifest["prompts"]["sap"]), manifest["generation"].get("thinking_tokens", 0)
    prompts = [prompt_of(record, principles, thinking_tokens, templates=templates) for record in run.records]
    if prompts_hash(prompts) != manifest["prompts"]["hash"]:
        raise H2HTalkError(f"{run.path} had other prompts than this version's; export it with its own version")
    return prompts


def _judgements(run: Run) -> dict[str, list[Judgement]]:
    """The judgements of each judged answer, by id."""
    panel = Panel.read(run.path)
    present = judged_rubrics(run.path) & set(read_scores(run).items["task"])
    if panel is None or not present:
        return {}
    tasks = tuple(task for task in TASKS if task in present)
    return valid_judgements(run.path, judge_items(run, tasks), panel)


def _reviews(run: Run) -> dict[str, tuple[Review, ...]]:
    """The marks of people for each answer, by id, without those that do not count any more."""
    if not Reviews.exist(run.path):
        return {}
    stale = stale_items(run)
    by_item = Reviews(run.path).latest()
    return {item: tuple(by_rater.values()) for item, by_rater in by_item.items() if item not in stale}
