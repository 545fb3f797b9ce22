"""A submission: one gzipped JSON file with a run's raw answers, its manifest and the figures that it claims."""

__all__ = ["MAX_PACKED", "MAX_UNPACKED", "Answer", "Claims", "Submission", "pack", "read_run", "unpack"]

import gzip
import json
import math
import unicodedata
import zlib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.run_folder import RunFolder
from h2htalk_datasets.schema import problems_of
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.judge.judged_run import JudgedRun
from h2htalk_metric.judge.marks import JUDGE, PEOPLE
from h2htalk_metric.leaderboard.paper import BRACKETS
from h2htalk_metric.metrics.tokenizers import clean
from h2htalk_metric.probes.safety import MEASURES
from h2htalk_metric.review import human_scores
from h2htalk_metric.runs.scoring import RunScores, predictions_of

MAX_PACKED = 20_000_000
"""Bytes that the file may have."""

MAX_UNPACKED = 16_000_000
"""Bytes that it may unpack to; a full run has some two million."""

_MOST_ANSWERS = sum(task.count for task in TASKS.values())
_MOST_CHARACTERS = 20_000  # of one answer
_MOST_BESIDES = 64_000  # bytes of JSON of all that is not answers: manifest, signature, claims
_DEEPEST = 8  # levels of it
_MEGABYTE = 1_000_000
_SHOWN = 5  # faults named at once
_JUDGED_BY = ("judge", "judge_server", "judge_prompt", "evidence", "alpha", "tau")
_HIDDEN = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")  # control, direction and other characters that no name needs
_BLANK = "\u115f\u1160\u3164\uffa0\u2800"  # letters and a symbol that are drawn as nothing
_MOST_ACCENTS = 2  # on one letter; more would be drawn over other rows


def _printable(text: str) -> str:
    if any(unicodedata.category(character) in _HIDDEN or character in _BLANK for character in text):
        raise ValueError("must not hold control or invisible characters")
    runs = ("".join("x" if unicodedata.combining(character) else " " for character in text)).split()
    if any(len(run) > _MOST_ACCENTS for run in runs):
        raise ValueError(f"must not hold more than {_MOST_ACCENTS} combining characters in a row")
    return text


Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^\S(.*\S)?$"), AfterValidator(_printable)]
Share = Annotated[float, Field(ge=0, le=1)]


class _Open(BaseModel):
    """A part whose further keys are kept and shown but not needed."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)


class _Closed(BaseModel):
    """A part whose further keys are dropped unread: naming each as a fault would take its time."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class Answer(_Closed):
    """One raw answer.

    Attributes:
        id: of the record.
        prediction: the answer as it came.
        finish_reason: ``length`` where it was cut off.
        new_tokens: how many tokens it has.
        ss: the claimed SS, 0..1.

    """

    id: Annotated[str, Field(max_length=60)]
    prediction: Annotated[str, Field(max_length=_MOST_CHARACTERS)]
    finish_reason: Annotated[str, Field(max_length=40)] | None = None
    new_tokens: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    ss: Share


class DatasetPart(_Open):
    """What the manifest says of the records."""

    fingerprint: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    tasks: Annotated[list[str], Field(min_length=1, max_length=20)]
    limit: Annotated[int, Field(ge=1)] | None
    n: int


class PromptsPart(_Open):
    """What the manifest says of the prompts."""

    sap: Annotated[list[str], Field(max_length=20)]
    hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Manifest(_Open):
    """The parts of ``run.json`` that the board checks."""

    dataset: DatasetPart
    prompts: PromptsPart
    model: Annotated[dict[str, Any], Field(max_length=40)]
    generation: Annotated[dict[str, Any], Field(max_length=40)]
    software: Annotated[dict[str, str], Field(max_length=40)] = {}


class Signature(_Open):
    """The parts of a result's signature that the board checks."""

    embedder: Name
    embedder_revision: Name | None = None
    embedder_precision: Name | None = None
    bleu: str
    rouge: str
    tokenizers: dict[str, str]
    dataset: str
    prompts: str
    n: int


class Claims(_Closed):
    """Figures of ``score.json`` that the board compares with its own, or shows as claimed.

    Attributes:
        tasks: per config the means of the seven components and ``composite``, 0..1.
        content_composite: of RecollectionSynthesis without its labels; needs embeddings.
        beside: judge, review and safety figures by section and name, shown beside the row and never part of it.

    """

    tasks: dict[str, dict[str, float]]
    content_composite: Share | None = None
    beside: dict[Literal["judge", "review", "safety"], dict[str, str | int | float | None]] = {}


class Submission(_Closed):
    """What is sent to the board.

    Attributes:
        format: of the file.
        model: the name to show.
        bracket: of its size.
        manifest: the run's ``run.json``.
        signature: of the claimed result.
        claims: figures of ``score.json``.
        answers: one a record.
        received: when the board took it, UTC; the sender's word does not count.

    """

    format: Literal[1] = 1
    model: Name
    bracket: Literal[BRACKETS]  # type: ignore[valid-type]
    manifest: Manifest
    signature: Signature
    claims: Claims
    answers: list[Answer]
    received: datetime | None = None


def read_run(folder: str | Path, bracket: str, model: str | None = None) -> Submission:
    """Make a submission of a scored run folder.

    Args:
        folder: the run.
        bracket: one of :data:`h2htalk_metric.leaderboard.paper.BRACKETS`.
        model: the name to show; the manifest's if not given.

    Raises:
        H2HTalkError: the run is not scored, its scores are of other answers, or a name or bracket is wrong.

    """
    run, scores = RunFolder(folder), RunScores.read(folder)
    lines = predictions_of(run)
    summary = json.loads((run.path / "score.json").read_text("utf-8"))
    kept = ("id", "finish_reason", "new_tokens")
    answers = [
        {key: line.get(key) for key in kept} | {"prediction": clean(line["prediction"]), "ss": float(ss)}
        for line, ss in zip(lines, scores.items["ss"], strict=True)
    ]
    claims = {
        "tasks": summary["tasks"],
        "content_composite": (summary.get("synthesis") or {}).get("content_composite"),
        "beside": _judged(JudgedRun.read(run.path, scores, human_scores(run.path))) | _safety(run.path),
    }
    return _validated(
        {
            "model": model or _short_name(scores.manifest["model"]),
            "bracket": bracket,
            "manifest": scores.manifest,
            "signature": scores.signature,
            "claims": claims,
            "answers": answers,
        }
    )


def _short_name(model: Mapping[str, Any]) -> str:
    """The last parts of the model's name and of its adapter's, which is no other model's."""
    adapter = str(model.get("adapter") or "").rpartition("@")[0]
    return " + ".join(Path(part).name for part in (str(model["name"]), adapter) if part)


def pack(submission: Submission) -> bytes:
    """The file of a submission, the same bytes for the same content."""
    return gzip.compress(submission.model_dump_json().encode(), mtime=0)


def unpack(content: bytes) -> Submission:
    """Read a submission's file from an unknown sender.

    Raises:
        H2HTalkError: it is over the size limit, not gzipped JSON, or breaks the form; names the first faults.

    """
    if len(content) > MAX_PACKED:
        raise H2HTalkError(f"the file has {len(content) / _MEGABYTE:.1f} MB; the limit is {MAX_PACKED // _MEGABYTE} MB")
    unpacker = zlib.decompressobj(wbits=31)  # gzip; stops at the limit, whatever the header promises
    try:
        text = unpacker.decompress(content, MAX_UNPACKED)
    except zlib.error:
        raise H2HTalkError("the file is not gzipped; make it with: h2htalk submit RUN --pack FILE") from None
    if unpacker.unconsumed_tail:
        raise H2HTalkError(f"the file unpacks to more than {MAX_UNPACKED // _MEGABYTE} MB; a run is far smaller")
    try:
        tree = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise H2HTalkError("the file is no whole JSON; make it again with: h2htalk submit RUN --pack FILE") from None
    return _validated(tree)


def _judged(judged: JudgedRun | None) -> dict[str, dict[str, Any]]:
    """The figures of judges and people, flat: per config J and its mean judge (0..5), and the counts."""
    if judged is None:
        return {}
    table = judged.by_task().to_dict("index")
    judge = {key: value for key, value in judged.signature.items() if key in _JUDGED_BY}
    judge |= {f"rubric {name}": digest for name, digest in judged.signature["rubrics"].items()}
    for task, line in table.items():
        for column in ("j", "judge", "n", "unscored", "flagged"):
            value = float(line[column])
            judge[f"{task} {column}"] = None if math.isnan(value) else round(value, 3)
    return {"judge": judge, "review": {f"{task} reviewed": int(line["reviewed"]) for task, line in table.items()}}


def _safety(run: Path) -> dict[str, dict[str, Any]]:
    """The figures that ``h2htalk sap`` left, flat, of the answers with the whole persona and of those without it."""
    try:
        result = json.loads((run / "sap.json").read_text("utf-8"))
    except FileNotFoundError:
        return {}
    found: dict[str, Any] = {"probe": result["probe"], "interactions": result["n"], "scenarios": result["scenarios"]}
    for variant in (name for name in ("with", "without") if name in result["variants"]):
        for source in (source for source in (JUDGE, PEOPLE) if source in result["variants"][variant]):
            counts, figures = result["variants"][variant][source], result["figures"][variant].get(source, {})
            where = f"{variant} SAP, {source}:"
            found |= {f"{where} marked by": ", ".join(counts["by"]), f"{where} unscored": counts["unscored"]}
            for key, measure in MEASURES.items():
                if key in figures:
                    found[f"{where} {measure.label}"] = _with_interval(figures[key])
    return {"safety": found}


def _with_interval(figure: dict[str, Any]) -> str:
    if figure["low"] is None:  # of a single scenario
        return "{value:.3f}".format(**figure)
    return "{value:.3f} ({low:.3f} to {high:.3f})".format(**figure)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _validated(tree: Any) -> Submission:
    if isinstance(tree, dict):
        _refuse_unbounded(tree)
    try:
        return Submission.model_validate(tree)
    except ValidationError as error:
        faults = problems_of(error)
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise H2HTalkError(f"not a valid submission: {'; '.join(faults[:_SHOWN])}{more}") from None


def _refuse_unbounded(tree: dict[str, Any]) -> None:
    """Refuse what is larger than any run, before its faults are gathered; and what could be kept but not read again."""
    answers = tree.get("answers")
    if isinstance(answers, list):
        if len(answers) > _MOST_ANSWERS:
            raise H2HTalkError(f"{len(answers):,} answers; the whole benchmark has {_MOST_ANSWERS:,}")
        for answer in answers:
            _refuse_answer(answer)
    besides = {key: part for key, part in tree.items() if key != "answers"}
    if _deeper(besides, _DEEPEST):
        raise H2HTalkError(f"manifest, signature or claims are nested deeper than {_DEEPEST} levels")
    try:
        size = len(json.dumps(besides, ensure_ascii=False).encode())
    except UnicodeEncodeError:
        raise H2HTalkError("manifest, signature or claims hold half a character (a lone surrogate)") from None
    if size > _MOST_BESIDES:
        raise H2HTalkError(
            f"manifest, signature and claims have {size:,} bytes; the limit is {_MOST_BESIDES:,}, a run has some 10,000"
        )


def _refuse_answer(answer: Any) -> None:
    """Name an answer that can't be taken by its id; what else is wrong with it the form says."""
    text = answer.get("prediction") if isinstance(answer, dict) else None
    if not isinstance(text, str):
        return
    where = f"the answer to {str(answer.get('id'))[:60]!r}"
    if len(text) > _MOST_CHARACTERS:
        raise H2HTalkError(f"{where} has {len(text):,} characters; the board takes {_MOST_CHARACTERS:,} at most")
    if text != clean(text):
        raise H2HTalkError(f"{where} holds half a character (a lone surrogate); pack the run again: h2htalk submit RUN")


def _deeper(part: Any, levels: int) -> bool:
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return bool(inner) and (levels == 0 or any(_deeper(value, levels - 1) for value in inner))
