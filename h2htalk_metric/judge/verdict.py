"""A verdict: the JSON object that a judge replies with. Its schema comes from a rubric, and it is read strictly."""

__all__ = ["InvalidVerdict", "Verdict", "read_verdict", "verdict_schema"]

import json
import re
from typing import Any, NamedTuple

from h2htalk_metric.judge.rubric import Criterion, Rubric

_FENCED = re.compile(r"^```(?:json)?\s*\n(.*)\n```$", re.DOTALL)


class Verdict(NamedTuple):
    """One reply of a judge.

    Attributes:
        scores: a level of the rubric per criterion.
        explanation: the judge's own words; untrusted.

    """

    scores: dict[str, int]
    explanation: str


class InvalidVerdict(ValueError):
    """A reply is not a verdict. The message says why in our own words and quotes nothing of the reply.

    Attributes:
        raw_reply: the reply.

    """

    def __init__(self, reason: str, raw_reply: str) -> None:
        super().__init__(reason)
        self.raw_reply = raw_reply


def verdict_schema(rubric: Rubric, *, explain_first: bool = False) -> dict[str, Any]:
    """JSON schema of a verdict: one of each criterion's levels, and the explanation, ``why``.

    Args:
        rubric: its criteria are the keys.
        explain_first: ``why`` comes before the scores, so the judge explains before it scores.

    """
    # Enums, because servers that follow a schema while decoding may not follow minimum and maximum.
    scores = {c.name: {"type": "integer", "enum": list(c.levels)} for c in rubric.criteria}
    why = {"why": {"type": "string"}}
    properties = why | scores if explain_first else scores | why
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def read_verdict(rubric: Rubric, reply: str) -> Verdict:
    """Read a reply; a Markdown fence around the JSON is removed.

    Raises:
        InvalidVerdict: it is not JSON, lacks a criterion, has an additional key, or a score is not a level.

    """
    fenced = _FENCED.match(reply.strip())
    try:
        content = json.loads(fenced[1] if fenced else reply)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise InvalidVerdict("it is not a JSON object, or it was cut off", reply)
    problems = [_problem(criterion, content) for criterion in rubric.criteria]
    if not isinstance(content.get("why"), str):
        problems.append("why must be a text")
    if content.keys() - {"why", *(criterion.name for criterion in rubric.criteria)}:
        problems.append("it has a key that is not in the schema")
    if any(problems):
        raise InvalidVerdict("; ".join(filter(None, problems)), reply)
    return Verdict({criterion.name: content[criterion.name] for criterion in rubric.criteria}, content["why"])


def _problem(criterion: Criterion, content: dict[str, Any]) -> str | None:
    """A problem in our own words, because the judge's reply may repeat what a candidate wrote."""
    score = content.get(criterion.name)
    if type(score) is int and score in criterion.levels:  # isinstance would accept true as 1
        return None
    what = "is not a level" if criterion.name in content else "is missing"
    return f"{criterion.name} {what}, it must be one of {', '.join(map(str, criterion.levels))}"
