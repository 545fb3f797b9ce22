"""Admission: check a submission against the board's own records, and compute its row from the raw answers."""

__all__ = [
    "COMPLETE",
    "ROW_FORMAT",
    "Admitted",
    "Row",
    "Sample",
    "Samples",
    "admit",
    "digest_of",
    "recomputable",
    "setup_here",
]

import hashlib
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, TypeAdapter

from h2htalk_datasets.answer_format import contract_fault
from h2htalk_datasets.errors import H2HTalkError, one_line
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.generation.run import chosen_rows, prompt_of
from h2htalk_datasets.prompts import SAP
from h2htalk_datasets.schema import Record
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.leaderboard.submission import Answer, Submission
from h2htalk_metric.metrics.composite import COMPONENTS
from h2htalk_metric.metrics.lexical import LEXICAL, lexical
from h2htalk_metric.metrics.memory_labels import label_agreement
from h2htalk_metric.metrics.signature import make_signature
from h2htalk_metric.metrics.similarity import DEFAULT_EMBEDDER, DEMO_NAME, load_embedder, semantic_similarity
from h2htalk_metric.metrics.tokenizers import clean
from h2htalk_metric.runs.scoring import RunScores
from h2htalk_metric.stats.aggregate import OVERALL
from h2htalk_metric.stats.bootstrap import intervals, resampled

ROW_FORMAT = 5
"""Raised when rows are computed in another way, so that stored ones are made anew."""

COMPLETE = sum(task.count for task in TASKS.values())

_SAME = 1e-4  # how far a claimed mean may be off, 0..1: a hundredth in the table
# Embeddings in half precision on a GPU and in single precision on a CPU differ in the third digit. The board shows its
# own SS, so this only tells a slip from another embedder or an invention: half a point in the table.
_SAME_SS = 5e-3
_KNOWN_EMBEDDERS = (DEFAULT_EMBEDDER, DEMO_NAME)  # a stranger's word loads no other model
_SYNTHESIS = "RecollectionSynthesis"


class Row(BaseModel):
    """A submission as the board shows it; all of it computed here except what is named as claimed.

    Attributes:
        format: :data:`ROW_FORMAT` when it was computed.
        digest: of the answers; names the submission's file.
        model: as submitted.
        bracket: of its size.
        submitted: when, UTC.
        setup: what must be equal for two rows to be comparable; of the board's own embedder where it recomputed SS.
        n: number of answers.
        cells: S times 100 by cell name; None where configs are missing.
        intervals: 95% bootstrap interval by cell name; without the cells that a config of a single answer is part of.
        tasks: per config the components and composite 0..1, `kept`, n, empty, truncated.
        ss: whether SS was recomputed by the board or is as claimed.
        synthesis: RecollectionSynthesis without its labels; `content_composite` is as claimed.
        beside: judge, review and safety figures as claimed.
        sap: the principles of the persona that the prompts held.
        signature: of the claimed result.
        manifest: of the run.

    """

    model_config = ConfigDict(frozen=True)

    format: int
    digest: str
    model: str
    bracket: str
    submitted: datetime
    setup: dict[str, str]
    n: int
    cells: dict[str, float | None]
    intervals: dict[str, tuple[float, float]]
    tasks: dict[str, dict[str, float]]
    ss: Literal["recomputed", "claimed"]
    synthesis: dict[str, float | None]
    beside: dict[str, dict[str, Any]]
    sap: list[str]
    signature: dict[str, Any]
    manifest: dict[str, Any]

    @property
    def partial(self) -> bool:
        """Whether records of the benchmark are left out."""
        return self.n < COMPLETE


class Sample(BaseModel):
    """An answer that a run's page shows, with what was asked; it needs no records to be shown.

    Attributes:
        label: ``lowest``, ``middle`` or ``highest``.
        id: of the record.
        score: mean of the six lexical components, 0..1.
        asked: the last message of the prompt.
        answer: as submitted, untrusted.
        reference: of the record.

    """

    model_config = ConfigDict(frozen=True)

    label: str
    id: str
    score: float
    asked: str
    answer: str
    reference: str


Samples = TypeAdapter(dict[str, list[Sample]])
"""The samples of a run by config, as they are kept."""


class Admitted(NamedTuple):
    """What the board keeps of an admitted submission beside the file itself.

    Attributes:
        row: as shown.
        draws: Overall times 100 over the bootstrap's resamples, float32 of shape (10000,); empty if it has no interval.
        samples: by config the answers with the lowest, the middle and the highest lexical score.

    """

    row: Row
    draws: np.ndarray
    samples: dict[str, list[Sample]]


def admit(submission: Submission, *, allow_partial: bool = False, recompute_ss: bool = False) -> Admitted:
    """Check a submission and compute its row.

    Args:
        submission: from an unknown sender.
        allow_partial: also take runs with a part of the records.
        recompute_ss: embed all answers anew, if the embedder is BGE-M3 or the demo's.

    Raises:
        H2HTalkError: it is refused; says why and what to do.

    """
    records = _records(submission, allow_partial)
    answers = _in_order(submission.answers, records)
    _check_origin(submission, records)
    texts = [clean(answer.prediction).strip() for answer in answers]
    again = recompute_ss and recomputable(submission.signature.embedder)
    items = _items(records, answers, texts, submission.signature.embedder if again else None)
    scores = RunScores(items, submission.signature.model_dump(), submission.manifest.model_dump())
    _check_claims(submission, scores, _SAME_SS if again else _SAME)
    values = {task: 100 * composites for task, composites in scores.composites().items()}
    draws = resampled(values)
    known = {cell: (one.low, one.high) for cell, one in intervals(values, draws).items() if one.known}
    row = Row(
        format=ROW_FORMAT,
        digest=digest_of(submission),
        model=submission.model,
        bracket=submission.bracket,
        submitted=submission.received or datetime.now(timezone.utc),
        setup=_setup(submission, again),
        n=len(records),
        cells=scores.row(),
        intervals=known,
        tasks={str(task): values for task, values in scores.by_task().to_dict("index").items()},
        ss="recomputed" if again else "claimed",
        synthesis=_synthesis(submission, records, texts),
        beside={str(section): figures for section, figures in submission.claims.beside.items()},
        sap=submission.manifest.prompts.sap,
        signature=scores.signature,
        manifest=scores.manifest,
    )
    _refuse_unreadable(row)
    overall = draws[OVERALL] if OVERALL in known else np.empty(0)
    return Admitted(row, overall.astype(np.float32), _samples(items, records, answers))


@lru_cache
def recomputable(embedder: str) -> bool:
    """Whether a board that embeds answers anew can do so with this embedder, by its name in the signature."""
    if embedder not in _KNOWN_EMBEDDERS:
        return False
    try:
        load_embedder(embedder)
    except H2HTalkError as error:  # the board's affair and not the sender's: its runs are shown as claimed
        print(f"SS by {embedder} can't be computed again here: {error}", file=sys.stderr)
        return False
    return True


def digest_of(submission: Submission) -> str:
    """Twenty hex digits over embedder, ids and answers; white space around an answer does not count."""
    digest = hashlib.sha256(submission.signature.embedder.encode())
    for identity, text in sorted((answer.id, clean(answer.prediction).strip()) for answer in submission.answers):
        digest.update(f"\n{identity}\t{text}".encode())
    return digest.hexdigest()[:20]


def _setup(submission: Submission, again: bool) -> dict[str, str]:
    """What may differ between admitted runs of what S depends on; all else was checked to be this board's own."""
    signature = submission.signature
    if again:
        return setup_here(signature.embedder) | {"dataset": signature.dataset}
    embedder = (signature.embedder, signature.embedder_revision, signature.embedder_precision)
    return _embedder_setup(*embedder) | {"dataset": signature.dataset}


def setup_here(embedder: str) -> dict[str, str]:
    """The part of a row's setup that says how this board embeds, for a :func:`recomputable` embedder."""
    loaded = load_embedder(embedder)
    return _embedder_setup(embedder, loaded.revision, loaded.precision)


def _embedder_setup(name: str, revision: str | None, precision: str | None) -> dict[str, str]:
    return {"embedder": name, "revision": revision or "", "precision": precision or ""}


@lru_cache(maxsize=4)
def _chosen(tasks: str, limit: int | None) -> tuple[dict[str, Any], ...]:
    """The board's own records for a run's tasks and limit, in their order."""
    return tuple(chosen_rows(tasks, limit))


def _records(submission: Submission, allow_partial: bool) -> tuple[dict[str, Any], ...]:
    asked = submission.manifest.dataset
    records = _chosen(",".join(asked.tasks), asked.limit)
    if len(records) < COMPLETE and not allow_partial:
        raise H2HTalkError(
            f"a partial run of {len(records)} records; this board takes whole runs of {COMPLETE:,}: "
            "run again without --limit and --tasks"
        )
    return records


def _in_order(answers: Sequence[Answer], records: Sequence[dict[str, Any]]) -> list[Answer]:
    """The answers in the records' order; refuses unknown, double and missing ones."""
    known = {record["id"]: record["task"] for record in records}
    unknown = [answer.id for answer in answers if answer.id not in known]
    if unknown:
        raise H2HTalkError(
            f"{len(unknown)} ids are not among the run's records, the first: {unknown[0]!r}; "
            "submit the run folder as `h2htalk run` left it"
        )
    by_id = {answer.id: answer for answer in answers}
    if len(by_id) < len(answers):
        double = Counter(answer.id for answer in answers).most_common(1)[0][0]
        raise H2HTalkError(
            f"{len(answers) - len(by_id)} ids come twice, the first: {double}; each record has one answer"
        )
    counts, given = Counter(known.values()), Counter(known[answer.id] for answer in answers)
    wrong = [f"{task} {given[task]} of {count}" for task, count in counts.items() if given[task] != count]
    if wrong:
        raise H2HTalkError(
            f"answers are missing: {', '.join(wrong)}; go on with the same `h2htalk run` command until it is complete"
        )
    return [by_id[identity] for identity in known]


@lru_cache(maxsize=8)
def _prompts_hash(tasks: str, limit: int | None, sap: tuple[str, ...]) -> str:
    prompts = (prompt_of(row, set(sap) if set(sap) != set(SAP) else True) for row in _chosen(tasks, limit))
    return fingerprint({"id": prompt.id, "messages": prompt.messages} for prompt in prompts)


@lru_cache(maxsize=4)
def _fingerprint(tasks: str, limit: int | None) -> str:
    return fingerprint(_chosen(tasks, limit))


def _check_origin(submission: Submission, records: Sequence[dict[str, Any]]) -> None:
    """Records, prompts and rules of scoring must be this board's own."""
    dataset, prompts, signature = submission.manifest.dataset, submission.manifest.prompts, submission.signature
    asked = (",".join(dataset.tasks), dataset.limit)
    if dataset.fingerprint != _fingerprint(*asked):
        raise H2HTalkError(
            f"the run was made on other records than this board's (fingerprint {dataset.fingerprint[:12]}, here "
            f"{_fingerprint(*asked)[:12]}): prompts or references were altered, or the dataset has another version; "
            "install this board's version of h2htalk and run again"
        )
    unknown = sorted(set(prompts.sap) - set(SAP))
    if unknown:
        raise H2HTalkError(f"the manifest names unknown principles of the persona: {', '.join(map(repr, unknown))}")
    if prompts.hash != _prompts_hash(*asked, tuple(prompts.sap)):
        raise H2HTalkError(
            "the manifest's prompts are not those of this board's records and the named persona; "
            "install this board's version of h2htalk and run again"
        )
    own = make_signature(embedder=signature.embedder, languages={r["language"] for r in records}, n=len(records))
    own |= {"dataset": dataset.fingerprint[:12], "prompts": prompts.hash[:12]}
    for key in ("dataset", "prompts", "n", "bleu", "rouge", "tokenizers"):
        claimed = getattr(signature, key)
        if claimed != own[key]:
            raise H2HTalkError(
                f"the scores' signature is of something else: {key} is {str(claimed)[:80]!r}, expected "
                f"{str(own[key])!r}; score the run again: h2htalk score RUN"
            )


def _lexical(text: str, reference: str, language: str) -> tuple[float, ...]:
    return lexical(text, reference, language) if text else (0.0,) * len(LEXICAL)


def _items(
    records: Sequence[dict[str, Any]], answers: Sequence[Answer], texts: Sequence[str], embedder: str | None
) -> pd.DataFrame:
    """The frame of :class:`h2htalk_metric.runs.scoring.RunScores`, its lexical components and contracts recomputed."""
    references = [clean(record["reference"]).strip() for record in records]
    pairs = zip(texts, references, records, strict=True)
    items = pd.DataFrame([_lexical(text, ref, record["language"]) for text, ref, record in pairs], columns=LEXICAL)
    full = np.array([bool(text) for text in texts])
    items["ss"] = np.where(full, [answer.ss for answer in answers], 0.0)
    if embedder is not None and full.any():
        asked = [place for place, text in enumerate(texts) if text]
        values = semantic_similarity(
            [texts[place] for place in asked], [references[place] for place in asked], load_embedder(embedder)
        )
        items.loc[asked, "ss"] = values
    items["composite"] = items[list(COMPONENTS)].mean(axis=1)
    items["id"], items["task"] = [record["id"] for record in records], [record["task"] for record in records]
    items["empty"] = ~full
    items["finish_reason"] = [answer.finish_reason for answer in answers]
    items["contract"] = [
        contract_fault(Record.model_validate(record), answer.prediction)
        for record, answer in zip(records, answers, strict=True)
    ]
    return items


def _check_claims(submission: Submission, scores: RunScores, ss_off: float) -> None:
    """Every claimed mean must follow from the answers; so altered references or figures show.

    The claimed SS may be off by `ss_off`, and the composite by the seventh of it that it brings.
    """
    allowed = dict.fromkeys(LEXICAL, _SAME) | {"ss": ss_off, "composite": _SAME + ss_off / len(COMPONENTS)}
    for task, line in scores.by_task().iterrows():
        claimed = submission.claims.tasks.get(str(task), {})
        for component in allowed:
            if component not in claimed:
                raise H2HTalkError(f"score.json claims no {component} for {task}; score again: h2htalk score RUN")
            if not abs(claimed[component] - line[component]) <= allowed[component]:
                raise H2HTalkError(
                    f"{task}: {component} is claimed as {100 * claimed[component]:.2f} but the answers give "
                    f"{100 * line[component]:.2f} against this board's references; score again: h2htalk score RUN"
                )


def _refuse_unreadable(row: Row) -> None:
    """What is kept must be readable again, or the board could never show it."""
    try:
        Row.model_validate_json(row.model_dump_json())
    except ValueError as error:  # pydantic's own errors are such
        raise H2HTalkError(f"manifest, signature or claims can't be kept as JSON ({one_line(error)})") from None


def _samples(
    items: pd.DataFrame, records: Sequence[dict[str, Any]], answers: Sequence[Answer]
) -> dict[str, list[Sample]]:
    """Of every config the answers with the lowest, the middle and the highest mean of the lexical components."""
    found: dict[str, list[Sample]] = {}
    scores = items[list(LEXICAL)].mean(axis=1)
    for task, places in items.groupby("task", sort=False).groups.items():
        ranked = scores[places].sort_values(kind="stable").index
        labels = {0: "lowest", len(ranked) // 2: "middle", len(ranked) - 1: "highest"}
        for rank, label in labels.items():
            place = ranked[rank]
            record, text = records[place], answers[place].prediction
            asked, reference = record["messages"][-1]["content"], record["reference"]
            sample = Sample(
                label=label, id=record["id"], score=scores[place], asked=asked, answer=text, reference=reference
            )
            found.setdefault(str(task), []).append(sample)
    return found


def _synthesis(
    submission: Submission, records: Sequence[dict[str, Any]], texts: Sequence[str]
) -> dict[str, float | None]:
    found = [
        label_agreement(text, record["reference"])
        for record, text in zip(records, texts, strict=True)
        if record["task"] == _SYNTHESIS
    ]
    pairs = [agreement for agreement in found if agreement]
    if not found:
        return {}
    return {
        "content_composite": submission.claims.content_composite,
        "compared": len(pairs),
        "category_agreement": float(np.mean([pair.category for pair in pairs])) if pairs else None,
        "importance_error": float(np.mean([pair.importance_error for pair in pairs])) if pairs else None,
    }
