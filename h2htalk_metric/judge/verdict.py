"""A verdict: the JSON object that a judge replies with, made from a rubric, and read without mercy."""

__all__ = ["Verdict", "VerdictFault", "read_verdict", "verdict_schema"]

import re
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, create_model

from h2htalk_metric.judge.rubric import Rubric

_FENCED = re.compile(r"^```(?:json)?\s*\n(.*)\n```$", re.DOTALL)


class Verdict(NamedTuple):
    """One reply of a judge.

    Attributes:
        marks: a level of the rubric for each of its criteria.
        why: the judge's own words; untrusted.

    """

    marks: dict[str, int]
    why: str


class VerdictFault(ValueError):
    """A reply is no verdict; the message says why in our own words and quotes nothing of the reply.

    Attributes:
        raw: the reply.

    """

    def __init__(self, told: str, raw: str) -> None:
        super().__init__(told)
        self.raw = raw


def verdict_schema(rubric: Rubric, *, evidence: bool = False) -> dict[str, Any]:
    """JSON schema of a verdict: whole numbers out of each criterion's levels, and ``why``.

    Args:
        rubric: whose criteria are the keys.
        evidence: ``why`` comes before the marks, so that the judge explains before it marks.

    """
    # Enums, since servers that keep to a schema while decoding may not keep to minimum and maximum.
    marks = {c.name: {"type": "integer", "enum": list(c.levels)} for c in rubric.criteria}
    why = {"why": {"type": "string"}}
    properties = why | marks if evidence else marks | why
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def read_verdict(rubric: Rubric, reply: str) -> Verdict:
    """Read a reply.

    Raises:
        VerdictFault: it is not JSON, lacks a criterion, has a key too many, or gives a mark that is no level.

    """
    text = reply.strip()
    fenced = _FENCED.match(text)
    try:
        read = _model(rubric).model_validate_json(fenced[1] if fenced else text).model_dump()
    except ValidationError as error:
        told = dict.fromkeys(_told(rubric, fault) for fault in error.errors())
        raise VerdictFault("; ".join(told), reply) from None
    return Verdict({c.name: read[c.name] for c in rubric.criteria}, read["why"])


def _model(rubric: Rubric) -> type[BaseModel]:
    fields: dict[str, Any] = {c.name: (_level(tuple(c.levels)), ...) for c in rubric.criteria}
    strict = ConfigDict(extra="forbid", strict=True)
    return create_model("Marks", __config__=strict, why=(str, ...), **fields)


def _level(levels: tuple[int, ...]) -> Any:
    """A whole number out of `levels`; a Literal would let ``true`` pass for 1."""

    def known(mark: int) -> int:
        if mark not in levels:
            raise ValueError
        return mark

    return Annotated[int, AfterValidator(known)]


def _told(rubric: Rubric, fault: Any) -> str:
    """A fault in our own words: what the judge wrote may repeat what a candidate wrote."""
    key = fault["loc"][0] if fault["loc"] else None
    levels = {c.name: ", ".join(map(str, c.levels)) for c in rubric.criteria}
    if key in levels:
        missing = "is missing" if fault["type"] == "missing" else "is no level"
        return f"{key} {missing}, it must be one of {levels[key]}"
    if key == "why":
        return "why must be a text"
    return "it has a key that was not asked for" if key else "it is not a JSON object, or it was cut off"
