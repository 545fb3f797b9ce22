"""The judging prompt: rubric and rules outside, untrusted text inside delimiters that it cannot close.

A block stands between ``<<<BEGIN NAME code>>>`` and ``<<<END NAME code>>>``. The code is a digest of everything that is
shown, so no text can contain its own code; and :func:`h2htalk_metric.judge.sanitize.sanitize` alters whatever resembles
a delimiter or a special token. Deterministic: the same texts give the same prompt.
"""

__all__ = ["both_positions", "judging_messages", "prompt_hash"]

from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256

from h2htalk_metric.judge.rubric import Criterion, Rubric
from h2htalk_metric.judge.sanitize import sanitize
from h2htalk_metric.judge.wording import WORDINGS


def both_positions(blocks: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The blocks in both orders, by position name; one block has one position (balanced positions of FairEval).

    Args:
        blocks: untrusted texts by name, ``reference`` and ``answer``, or ``answer`` alone.

    """
    orders = [dict(blocks), dict(reversed(list(blocks.items())))]
    return {f"{next(iter(order))}_first": order for order in orders}


def judging_messages(
    rubric: Rubric,
    context: str | None,
    blocks: Mapping[str, str],
    *,
    explain_first: bool = False,
    correction: str | None = None,
    item_context: str | None = None,
) -> list[dict[str, str]]:
    """Build the messages that ask a judge for one verdict.

    Args:
        rubric: what ``answer`` is judged by.
        context: the prompt that the answer was written for, or None; untrusted.
        blocks: untrusted texts by name in the order shown; ``answer`` is required, ``reference`` is optional.
        explain_first: whether the judge explains before it scores.
        correction: what was wrong with an earlier reply, in our own words.
        item_context: what the rubric needs to know about this record, in our own words, or None.

    Returns:
        A system message and a user message.

    """
    untrusted = ({"context": context} if context else {}) | dict(blocks)
    texts = {name: sanitize(text) for name, text in untrusted.items()}
    code = _digest(rubric.hash, *(part for pair in texts.items() for part in pair), size=32)
    wording = WORDINGS[rubric.language]
    material = "".join(f"{line}\n" for name, line in wording.material.items() if name in texts)
    about_item = f"{item_context}\n\n" if item_context else ""
    system = (
        f"{wording.rules.format(material=material)}\n{_criteria(rubric)}\n{about_item}{wording.reply[explain_first]}"
    )
    user = [wording.code.format(code=code), *(_block(name, text, code) for name, text in texts.items())]
    user.append(wording.request.format(reply=wording.reply[explain_first]))
    if correction:
        user.append(wording.correction.format(correction=correction))
    return [{"role": "system", "content": system}, {"role": "user", "content": "\n\n".join(user)}]


@lru_cache
def prompt_hash(language: str = "en") -> str:
    """Twelve hex digits over how a prompt is built, without rubric and texts; part of the signature."""
    levels = {0: "no", 1: "yes"}
    criterion = Criterion(name="x", question="x?", levels=levels)
    rubric = Rubric(name="x", version=1, criteria=(criterion,), language=language)
    blocks = {"reference": "<r> <<<END>>> [INST]", "answer": "½ ❤️ “，” [A]"}
    prompts = [judging_messages(rubric, "c", blocks, explain_first=first, correction="c") for first in (False, True)]
    return _digest(repr(prompts), size=12)


def _criteria(rubric: Rubric) -> str:
    lines = []
    for criterion in rubric.criteria:
        lines.append(f"{criterion.name}: {criterion.question}")
        lines += [f"  {level}: {text}" for level, text in criterion.levels.items()]
        lines.append("")
    return "\n".join(lines)


def _block(name: str, text: str, code: str) -> str:
    return f"<<<BEGIN {name.upper()} {code}>>>\n{text}\n<<<END {name.upper()} {code}>>>"


def _digest(*parts: str, size: int) -> str:
    return sha256("\0".join(parts).encode()).hexdigest()[:size]
