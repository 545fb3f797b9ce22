"""A submission: one gzipped JSON file with the raw answers of a run, its manifest and the scores that it claims."""

__all__ = ["MAX_PACKED", "MAX_UNPACKED", "Answer", "Claims", "Submission", "digest_of", "pack", "parse", "unpack"]

import gzip
import hashlib
import json
import unicodedata
import zlib
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.languages import LANGUAGES
from h2htalk_datasets.schema import problems_of
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.leaderboard.paper import BRACKETS
from h2htalk_metric.metrics.tokenizers import clean

MAX_PACKED = 20_000_000
"""Bytes of the file."""

MAX_UNPACKED = 16_000_000
"""Bytes of the JSON in it; a full run has about two million."""

_MAX_ANSWERS = sum(task.count for task in TASKS.values())
_MAX_ANSWER_CHARACTERS = 20_000
_MAX_OTHER_BYTES = 64_000  # JSON of everything except the answers
_MAX_LEVELS = 8  # of nesting, likewise
_MAX_ERRORS_SHOWN = 5
_MEGABYTE = 1_000_000
_HIDDEN = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")  # Unicode categories: control, direction, private use and so on
_BLANK = "\u115f\u1160\u3164\uffa0\u2800"  # letters and a symbol that are displayed as nothing
_MAX_ACCENTS = 2  # on one letter; more would cover other rows of the table


def _check_printable(text: str) -> str:
    if any(unicodedata.category(character) in _HIDDEN or character in _BLANK for character in text):
        raise ValueError("must not contain control or invisible characters")
    accents = ("".join("x" if unicodedata.combining(character) else " " for character in text)).split()
    if any(len(group) > _MAX_ACCENTS for group in accents):
        raise ValueError(f"must not contain more than {_MAX_ACCENTS} combining characters in a row")
    return text


Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^\S(.*\S)?$"), AfterValidator(_check_printable)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class _Open(BaseModel):
    """A part whose additional keys are stored and shown."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)


class _Closed(BaseModel):
    """A part whose additional keys are dropped; an error message per key would take too long."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class Answer(_Closed):
    """One raw answer.

    Attributes:
        id: record id.
        prediction: the unchanged answer.
        finish_reason: ``length`` if the answer was cut off.
        new_tokens: number of tokens.
        ss: claimed SS, 0..1.

    """

    id: Annotated[str, Field(max_length=60)]
    prediction: Annotated[str, Field(max_length=_MAX_ANSWER_CHARACTERS)]
    finish_reason: Annotated[str, Field(max_length=40)] | None = None
    new_tokens: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    ss: Fraction


class DatasetPart(_Open):
    """Which records the run answers, in one language."""

    fingerprint: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    languages: Annotated[dict[Literal[tuple(LANGUAGES)], str], Field(max_length=1)] = {}  # type: ignore[valid-type]
    tasks: Annotated[list[str], Field(min_length=1, max_length=20)]
    limit: Annotated[int, Field(ge=1)] | None
    n: int
    data: dict[str, str] | None = None

    @property
    def language(self) -> str:
        """Code of the language; runs of older versions are English."""
        return next(iter(self.languages), "en")


class PromptsPart(_Open):
    """Which prompts the run sent."""

    sap: Annotated[list[str], Field(max_length=20)]
    hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Manifest(_Open):
    """The parts of ``run.json`` that the board checks or shows."""

    dataset: DatasetPart
    prompts: PromptsPart
    model: Annotated[dict[str, Any], Field(max_length=40)]
    generation: Annotated[dict[str, Any], Field(max_length=40)]
    software: Annotated[dict[str, str], Field(max_length=40)] = {}


class Signature(_Open):
    """The parts of the scores' signature that the board checks."""

    embedder: Name
    embedder_revision: Name | None = None
    embedder_precision: Name | None = None
    bleu: str
    rouge: str
    tokenizers: dict[str, str]
    dataset: str
    prompts: str
    n: int
    references: str = "first"


class Claims(_Closed):
    """Scores as the sender computed them.

    Attributes:
        tasks: per config the means of the seven components and ``composite``, 0..1; the board computes its own and
            compares.
        content_composite: RecollectionSynthesis without its labels, 0..1.
        claimed_only: figures of judge, review and probes by section and name. The board cannot compute them; they are
            shown on the page of the run and are not part of any score.

    """

    tasks: dict[str, dict[str, float]]
    content_composite: Fraction | None = None
    claimed_only: dict[
        Literal["judge", "review", "safety", "planning", "memory"], dict[str, str | int | float | None]
    ] = {}


class Submission(_Closed):
    """Content of the file.

    Attributes:
        format: version of the file format.
        model: displayed name.
        bracket: size bracket, one of :data:`h2htalk_metric.leaderboard.paper.BRACKETS`.
        manifest: ``run.json`` of the run.
        signature: of the claimed scores.
        claims: scores to compare or to show as claimed.
        answers: one per record.
        received: when the board received it, UTC. The board sets it; a value from the sender is ignored.

    """

    format: Literal[2] = 2
    model: Name
    bracket: Literal[BRACKETS]  # type: ignore[valid-type]
    manifest: Manifest
    signature: Signature
    claims: Claims
    answers: list[Answer]
    received: datetime | None = None


def digest_of(submission: Submission) -> str:
    """Twenty hex digits of embedder, ids and answers; surrounding white space of an answer does not matter."""
    digest = hashlib.sha256(submission.signature.embedder.encode())
    for record_id, text in sorted((answer.id, clean(answer.prediction).strip()) for answer in submission.answers):
        digest.update(f"\n{record_id}\t{text}".encode())
    return digest.hexdigest()[:20]


def pack(submission: Submission) -> bytes:
    """The file of a submission; the same content gives the same bytes."""
    return gzip.compress(submission.model_dump_json().encode(), mtime=0)


def unpack(content: bytes) -> Submission:
    """Read a submission's file from an untrusted sender.

    Raises:
        H2HTalkError: the file is too large, is not gzipped JSON, or is not a valid submission; names the first errors.

    """
    if len(content) > MAX_PACKED:
        raise H2HTalkError(f"the file has {len(content) / _MEGABYTE:.1f} MB; the limit is {MAX_PACKED // _MEGABYTE} MB")
    decompressor = zlib.decompressobj(wbits=31)  # gzip; stops at the limit, whatever size the header states
    try:
        text = decompressor.decompress(content, MAX_UNPACKED)
    except zlib.error:
        raise H2HTalkError("the file is not gzipped; create it with: h2htalk submit RUN --pack FILE") from None
    if decompressor.unconsumed_tail:
        raise H2HTalkError(f"the file unpacks to more than {MAX_UNPACKED // _MEGABYTE} MB; a run is far smaller")
    try:
        tree = json.loads(text, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        raise H2HTalkError("the file is not valid JSON; create it again with: h2htalk submit RUN --pack FILE") from None
    return parse(tree)


def parse(tree: Any) -> Submission:
    """Validate the JSON content of a submission.

    Raises:
        H2HTalkError: it is larger than any run, or not a valid submission; names the first errors.

    """
    if isinstance(tree, dict):
        _check_size(tree)
        tree = _upgrade_format_1(tree)
    try:
        return Submission.model_validate(tree)
    except ValidationError as error:
        errors = problems_of(error)
        more = f"; and {len(errors) - _MAX_ERRORS_SHOWN} more" if len(errors) > _MAX_ERRORS_SHOWN else ""
        raise H2HTalkError(f"not a valid submission: {'; '.join(errors[:_MAX_ERRORS_SHOWN])}{more}") from None


def _upgrade_format_1(tree: dict[str, Any]) -> dict[str, Any]:
    """Rename the key of format 1 (h2htalk 0.1)."""
    claims = tree.get("claims")
    if tree.get("format", 1) != 1 or not isinstance(claims, dict):
        return tree
    renamed = {"claimed_only" if key == "beside" else key: value for key, value in claims.items()}
    return tree | {"format": 2, "claims": renamed}


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _check_size(tree: dict[str, Any]) -> None:
    """Check the size before validation, which would list every error, and that the content can be stored as JSON."""
    answers = tree.get("answers")
    if isinstance(answers, list):
        if len(answers) > _MAX_ANSWERS:
            raise H2HTalkError(f"{len(answers):,} answers; the full benchmark has {_MAX_ANSWERS:,}")
        for answer in answers:
            _check_answer_text(answer)
    other = {key: part for key, part in tree.items() if key != "answers"}
    if _is_deeper(other, _MAX_LEVELS):
        raise H2HTalkError(f"manifest, signature or claims are nested deeper than {_MAX_LEVELS} levels")
    try:
        size = len(json.dumps(other, ensure_ascii=False, allow_nan=False).encode())
    except ValueError:  # a lone surrogate, or a number beyond the range of a float
        raise H2HTalkError("manifest, signature or claims cannot be stored as JSON (lone surrogate or 1e999)") from None
    if size > _MAX_OTHER_BYTES:
        raise H2HTalkError(
            f"manifest, signature and claims have {size:,} bytes; the limit is {_MAX_OTHER_BYTES:,}, "
            "a run has about 10,000"
        )


def _check_answer_text(answer: Any) -> None:
    """Name a bad text by its record id; all other errors of an answer are left to the validation."""
    text = answer.get("prediction") if isinstance(answer, dict) else None
    if not isinstance(text, str):
        return
    where = f"the answer to {str(answer.get('id'))[:60]!r}"
    if len(text) > _MAX_ANSWER_CHARACTERS:
        raise H2HTalkError(f"{where} has {len(text):,} characters; the limit is {_MAX_ANSWER_CHARACTERS:,}")
    if text != clean(text):
        raise H2HTalkError(f"{where} contains a lone surrogate; pack the run again: h2htalk submit RUN --pack FILE")


def _is_deeper(part: Any, levels: int) -> bool:
    children = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return bool(children) and (levels == 0 or any(_is_deeper(child, levels - 1) for child in children))
