"""Validate a submission against the board's own records, and compute its row from the raw answers."""

__all__ = ["board_records", "embedder_config", "has_board_records", "load_board_embedder", "validate"]

import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

import numpy as np

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.generation.requests import chosen_rows, prompt_of, prompts_hash
from h2htalk_datasets.prompts import SAP
from h2htalk_metric.leaderboard.row import ROW_VERSION, Level, Row, Sample, full_size
from h2htalk_metric.leaderboard.submission import Answer, Submission, digest_of
from h2htalk_metric.metrics.composite import COMPONENTS
from h2htalk_metric.metrics.lexical import LEXICAL
from h2htalk_metric.metrics.signature import lexical_rules
from h2htalk_metric.metrics.similarity import DEFAULT_EMBEDDER, DEMO_NAME, Embedder, load_embedder
from h2htalk_metric.runs.scored_items import score_answers
from h2htalk_metric.runs.scoring import RunScores
from h2htalk_metric.runs.slices import FACTORS, need_effects, slices
from h2htalk_metric.stats.intervals import row_detectable

_TOLERANCE = 1e-4  # of a claimed mean, 0..1: 0.01 in the table
# Half precision on a GPU and single precision on a CPU differ in the third digit. The board shows its own SS, so this
# only has to tell a rounding difference from another embedder or an invented value: 0.5 in the table.
_SS_TOLERANCE = 5e-3
_DECIMALS = 3  # of derived figures, so that a row stays small
_RECOMPUTABLE = (DEFAULT_EMBEDDER, DEMO_NAME)  # a sender cannot make the board load any other model

Records = Sequence[dict[str, Any]]


def validate(submission: Submission, *, allow_partial: bool = False, embedder: Embedder | None = None) -> Row:
    """Validate a submission and compute its row.

    Args:
        submission: from an untrusted sender.
        allow_partial: also accept runs over some of the records.
        embedder: recomputes SS; None: SS is taken as claimed.

    Raises:
        H2HTalkError: the submission is refused; says why and what to do.

    """
    records = _records_of(submission, allow_partial)
    answers = _answers_in_order(submission, records)
    _check_origin(submission, records)
    scores = _score(submission, answers, records, embedder)
    _check_claims(submission, scores, _TOLERANCE if embedder is None else _SS_TOLERANCE)
    claimed = submission.signature
    embedding = (claimed.embedder, claimed.embedder_revision, claimed.embedder_precision)
    if embedder:
        embedding = (embedder.name, embedder.revision, embedder.precision)
    sums = scores.cluster_sums
    return Row(
        version=ROW_VERSION,
        digest=digest_of(submission),
        model=submission.model,
        bracket=submission.bracket,
        submitted=submission.received or datetime.now(timezone.utc),
        sap=submission.manifest.prompts.sap,
        language=submission.manifest.dataset.language,
        full_size=full_size(submission.manifest.dataset.language),
        # Everything else that S depends on was checked to be this board's.
        scoring_config=embedder_config(*embedding) | {"dataset": claimed.dataset},
        n=len(records),
        cells=scores.row(),
        intervals={cell: (one.low, one.high) for cell, one in scores.intervals().items() if one.defined},
        detectable={cell: round(one, _DECIMALS) for cell, one in row_detectable(sums).items() if not math.isnan(one)},
        levels=_levels(scores),
        need_effects=_need_effects(scores),
        tasks={str(task): line for task, line in scores.by_task().to_dict("index").items()},
        memory_labels=_memory_labels(submission, scores, embedder),
        ss="claimed" if embedder is None else "recomputed",
        samples=_samples(scores),
        cluster_sums=sums.sums.round(4).tolist(),
        cluster_counts=sums.counts.astype(int).tolist(),
    )


def load_board_embedder(name: str, load: Callable[[str], Embedder] = load_embedder) -> Embedder | None:
    """Load the embedder of a submission to recompute SS with it.

    Args:
        name: as in the submission's signature.
        load: see :func:`h2htalk_metric.metrics.similarity.load_embedder`.

    Returns:
        None if it is neither BGE-M3 nor the demo's, or cannot be loaded here; the latter is printed.

    """
    if name not in _RECOMPUTABLE:
        return None
    try:
        return load(name)
    except H2HTalkError as error:  # not the sender's fault: such runs are shown as claimed
        print(f"SS by {name} cannot be recomputed here: {error}", file=sys.stderr)
        return None


def embedder_config(name: str, revision: str | None, precision: str | None) -> dict[str, str]:
    """The part of a row's scoring config that names the embedder; without the dataset."""
    return {"embedder": name, "revision": revision or "", "precision": precision or ""}


def board_records(submission: Submission) -> Records:
    """The board's own records for the configs and the limit of a run, in their order."""
    return _selected(*_selection(submission))


def has_board_records(submission: Submission) -> bool:
    """Whether the run answers the board's own records, unchanged."""
    return submission.manifest.dataset.fingerprint == _fingerprint(*_selection(submission))


def _selection(submission: Submission) -> tuple[str, int | None, str]:
    dataset = submission.manifest.dataset
    return ",".join(dataset.tasks), dataset.limit, dataset.language


@lru_cache(maxsize=4)
def _selected(tasks: str, limit: int | None, language: str) -> tuple[dict[str, Any], ...]:
    return tuple(chosen_rows(tasks, limit, language))


@lru_cache(maxsize=4)
def _fingerprint(tasks: str, limit: int | None, language: str) -> str:
    return fingerprint(_selected(tasks, limit, language))


@lru_cache(maxsize=8)
def _prompts_hash(tasks: str, limit: int | None, language: str, sap: tuple[str, ...]) -> str:
    principles = set(sap) if set(sap) != set(SAP) else True
    return prompts_hash(prompt_of(record, principles) for record in _selected(tasks, limit, language))


def _records_of(submission: Submission, allow_partial: bool) -> Records:
    if submission.manifest.dataset.data:
        raise H2HTalkError(
            "the run answers records of your own (--data), and this board only ranks runs over the shipped records; "
            "compare such runs with `h2htalk compare`"
        )
    records = board_records(submission)
    full = full_size(submission.manifest.dataset.language)
    if len(records) < full and not allow_partial:
        raise H2HTalkError(
            f"a partial run of {len(records)} records; this board takes full runs of {full:,}: "
            "run again without --limit and --tasks"
        )
    return records


def _answers_in_order(submission: Submission, records: Records) -> list[Answer]:
    """The answers in the order of the records.

    Raises:
        H2HTalkError: an id is unknown, occurs twice, or is missing.

    """
    tasks = {record["id"]: record["task"] for record in records}
    unknown = [answer.id for answer in submission.answers if answer.id not in tasks]
    if unknown:
        raise H2HTalkError(
            f"{len(unknown)} ids are not among the records of the run, the first: {unknown[0]!r}; "
            "submit the run folder as `h2htalk run` left it"
        )
    by_id = {answer.id: answer for answer in submission.answers}
    repeated = len(submission.answers) - len(by_id)
    if repeated:
        first = Counter(answer.id for answer in submission.answers).most_common(1)[0][0]
        raise H2HTalkError(f"{repeated} ids occur twice, the first: {first}; each record has one answer")
    expected, counts = Counter(tasks.values()), Counter(tasks[record_id] for record_id in by_id)
    missing = [f"{task} {counts[task]} of {count}" for task, count in expected.items() if counts[task] != count]
    if missing:
        raise H2HTalkError(
            f"answers are missing: {', '.join(missing)}; run the same `h2htalk run` command again until it is complete"
        )
    return [by_id[record_id] for record_id in tasks]


def _check_origin(submission: Submission, records: Records) -> None:
    """Check that records, prompts and scoring rules are this board's own."""
    dataset, prompts, signature = submission.manifest.dataset, submission.manifest.prompts, submission.signature
    selection = _selection(submission)
    if not has_board_records(submission):
        raise H2HTalkError(
            f"the run answers other records than this board's (fingerprint {dataset.fingerprint[:12]}, here "
            f"{_fingerprint(*selection)[:12]}): the dataset has another version, or was changed; "
            "install this board's version of h2htalk and run again"
        )
    unknown = sorted(set(prompts.sap) - set(SAP))
    if unknown:
        raise H2HTalkError(f"the manifest names unknown principles of the persona: {', '.join(map(repr, unknown))}")
    if prompts.hash != _prompts_hash(*selection, tuple(prompts.sap)):
        raise H2HTalkError(
            "the manifest's prompts are not those of this board's records and the named persona; "
            "install this board's version of h2htalk and run again"
        )
    expected = {
        "references": "first",
        "dataset": dataset.fingerprint[:12],
        "prompts": prompts.hash[:12],
        "n": len(records),
    }
    expected |= lexical_rules(record["language"] for record in records)
    for key, value in expected.items():
        claimed = getattr(signature, key)
        if claimed != value:
            raise H2HTalkError(
                f"the signature does not match the run: {key} is {str(claimed)[:80]!r}, expected {str(value)!r}; "
                "score the run again: h2htalk score RUN"
            )


def _score(submission: Submission, answers: Sequence[Answer], records: Records, embedder: Embedder | None) -> RunScores:
    similarity = np.array([answer.ss for answer in answers]) if embedder is None else None
    predictions = [answer.model_dump() for answer in answers]
    items, _ = score_answers(predictions, records, embedder=embedder, similarity=similarity)
    return RunScores(items, submission.signature.model_dump(), submission.manifest.model_dump())


def _check_claims(submission: Submission, scores: RunScores, ss_tolerance: float) -> None:
    """Check that every claimed mean follows from the answers, so changed references or scores are detected."""
    tolerances = dict.fromkeys(LEXICAL, _TOLERANCE)
    tolerances |= {"ss": ss_tolerance, "composite": _TOLERANCE + ss_tolerance / len(COMPONENTS)}
    for task, line in scores.by_task().iterrows():
        claimed = submission.claims.tasks.get(str(task), {})
        for component, tolerance in tolerances.items():
            if component not in claimed:
                raise H2HTalkError(f"the claims have no {component} for {task}; score again: h2htalk score RUN")
            if not abs(claimed[component] - line[component]) <= tolerance:
                raise H2HTalkError(
                    f"{task}: {component} is claimed as {100 * claimed[component]:.2f} but the answers give "
                    f"{100 * line[component]:.2f} against this board's references; score again: h2htalk score RUN"
                )


def _memory_labels(submission: Submission, scores: RunScores, embedder: Embedder | None) -> dict[str, float | None]:
    labels = scores.memory_labels() or {}
    if labels and embedder is None:
        labels["content_composite"] = submission.claims.content_composite
    return labels


def _levels(scores: RunScores) -> list[Level]:
    return [
        Level(
            factor=factor,
            level=one.level,
            n=one.n,
            value=round(one.score.value, _DECIMALS),
            interval=(round(one.score.low, _DECIMALS), round(one.score.high, _DECIMALS)) if one.score.defined else None,
            detectable=None if math.isnan(one.detectable) else round(one.detectable, _DECIMALS),
        )
        for factor in FACTORS
        for one in slices(scores, factor)
    ]


def _need_effects(scores: RunScores) -> dict[str, tuple[float, float, float]]:
    effects = need_effects(scores)
    if effects is None:
        return {}
    named = {"raw": effects.raw, "within_config": effects.within_config, "adjusted": effects.adjusted}
    return {
        name: (round(effect.value, _DECIMALS), round(effect.low, _DECIMALS), round(effect.high, _DECIMALS))
        for name, effect in named.items()
    }


def _samples(scores: RunScores) -> dict[str, list[Sample]]:
    """Of each config the answers with the lowest, the middle and the highest mean of the lexical components."""
    items = scores.items.assign(lexical=scores.items[[*LEXICAL]].mean(axis=1))
    samples = {}
    for task, rows in items.groupby("task", sort=False):
        ranked = rows.sort_values("lexical", kind="stable")
        places = {0: "lowest", len(ranked) // 2: "middle", len(ranked) - 1: "highest"}
        samples[str(task)] = [
            Sample(label=label, id=ranked["id"].iloc[place], score=ranked["lexical"].iloc[place])
            for place, label in places.items()
        ]
    return samples
