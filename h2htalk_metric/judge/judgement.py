"""Judgements of a run in ``RUN/judgements.jsonl``, append-only, one line per answer and judge."""

__all__ = ["Judgement", "append_judgement", "item_key", "judged_rubrics", "unscored_reason", "valid_judgements"]

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

from h2htalk_datasets.files import append_json_line, read_json_lines
from h2htalk_metric.judge.budget import Usage
from h2htalk_metric.judge.judge_items import JudgeItem
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.judge.prompt import prompt_hash
from h2htalk_metric.judge.sanitize import shown_as_before

_EARLIER_PROMPT = "359fb4c629b9"  # prompt hash of version 0.1; its judgements are valid if it showed the same texts
_OLD_KEYS = {
    "id": "record_id",
    "judge": "judge_model",
    "verdict": "scores",
    "positions": "position_scores",
    "position_gap": "position_bias",
    "why": "explanations",
    "raw": "raw_reply",
}


@dataclass(frozen=True)
class Judgement:
    """What one judge says about one answer: scores, or the reason why there are none.

    Attributes:
        record_id: of the record.
        rubric: name of the rubric.
        judge_model: name of the model.
        key: 16 hex digits over everything that the scores depend on, see :func:`item_key`.
        rubric_hash: of the rubric's text.
        server: base URL without secrets; None is OpenAI's own.
        scores: level per criterion, the mean over positions and explanations; empty if unscored.
        position_scores: the same per position, ``answer_first`` and ``reference_first``.
        score: J_judge, the mean of `scores`, on the rubric's levels (0..5 for the tasks); None if unscored.
        position_bias: score with the answer first minus score with the reference first; None for one position.
        explanations: the judge's words per position, one text per call; untrusted.
        unscored: why there are no scores, or None.
        raw_reply: the reply that could not be used, or None; untrusted.
        usage: calls and tokens that it took.

    """

    record_id: str
    rubric: str
    judge_model: str
    key: str
    rubric_hash: str = ""
    server: str | None = None
    scores: dict[str, float] = field(default_factory=dict)
    position_scores: dict[str, dict[str, float]] = field(default_factory=dict)
    score: float | None = None
    position_bias: float | None = None
    explanations: dict[str, list[str]] = field(default_factory=dict)
    unscored: str | None = None
    raw_reply: str | None = None
    usage: Usage = field(default_factory=Usage)


def append_judgement(folder: Path, judgement: Judgement) -> None:
    """Append to ``judgements.jsonl``; on disk when this returns."""
    line = {key: value for key, value in asdict(judgement).items() if value is not None and value != {}}
    append_json_line(folder / "judgements.jsonl", line)


def valid_judgements(folder: Path, items: Sequence[JudgeItem], panel: Panel) -> dict[str, list[Judgement]]:
    """The judgements of a run folder that hold for these items and this panel.

    Judgements of another answer, prompt, rubric or setting are not used. Of several for one item and judge, scores are
    preferred to a failure, and a later one to an earlier one.

    Args:
        folder: the run folder.
        items: the answers as they are now.
        panel: who judges, and how.

    Returns:
        By record id one judgement per judge, in the panel's order. If a judge has no valid one, it is unscored and
        says so.

    """
    stored: dict[tuple[str, str], Judgement] = {}
    judged: set[tuple[str, str]] = set()
    for judgement in _read(folder / "judgements.jsonl"):
        judged.add((judgement.record_id, judgement.judge_model))
        place = judgement.record_id, judgement.key
        if place not in stored or judgement.unscored is None:
            stored[place] = judgement

    def judgement_of(item: JudgeItem, judge_model: str) -> Judgement:
        settings = item, judge_model, panel.num_explanations, panel.seed, panel.server
        is_default = judge_model in panel.default_temperature
        prompts = [None, _EARLIER_PROMPT] if _shown_as_before(item) else [None]
        keys = [item_key(*settings, prompt, default_temperature=is_default) for prompt in prompts]
        for key in keys:
            if (item.id, key) in stored:
                return stored[item.id, key]
        reason = "not judged yet"
        if (item.id, judge_model) in judged:
            reason = "judged with another answer, prompt, rubric or setting than now"
        return Judgement(item.id, item.rubric.name, judge_model, keys[0], unscored=reason)

    return {item.id: [judgement_of(item, judge_model) for judge_model in panel.judges] for item in items}


def judged_rubrics(folder: Path) -> set[str]:
    """Names of the rubrics of all judgements in a run folder, valid or not; a task's rubric has the task's name."""
    return {judgement.rubric for judgement in _read(folder / "judgements.jsonl")}


def unscored_reason(judgements: Sequence[Judgement]) -> str | None:
    """Why a panel has no score for an item, or None if it has one.

    If one judge gave no scores, the item is unscored: a mean over the other judges would be that of another panel.
    """
    reasons = [f"{one.judge_model}: {one.unscored}" for one in judgements if one.unscored is not None]
    return "; ".join(reasons) or None


def item_key(
    item: JudgeItem,
    judge_model: str,
    num_explanations: int,
    seed: int,
    server: str | None = None,
    prompt: str | None = None,
    default_temperature: bool = False,
) -> str:
    """Sixteen hex digits over everything that a judge's scores for an item depend on.

    Args:
        item: the answer.
        judge_model: name of the model.
        num_explanations: see :class:`h2htalk_metric.judge.panel.Panel`.
        seed: of the first call.
        server: base URL without secrets; None is OpenAI's own.
        prompt: prompt hash; None: the present one.
        default_temperature: see :class:`h2htalk_metric.judge.panel.Panel`.

    """
    judge = (judge_model, server) if server else (judge_model,)
    judge = (*judge, "default temperature") if default_temperature else judge
    context = (item.context, item.item_context) if item.item_context else (item.context,)
    parts = (
        *judge,
        num_explanations,
        seed,
        prompt or prompt_hash(item.rubric.language),
        item.rubric.hash,
        *context,
        *item.blocks.items(),
    )
    return sha256(repr(parts).encode()).hexdigest()[:16]


def _read(file: Path) -> Iterator[Judgement]:
    """The judgements of a file; lines that a killed process left incomplete are skipped, and judged again."""
    names = {one.name for one in fields(Judgement)}
    for line in read_json_lines(file):
        content = _upgrade_judgement(line)
        if {"record_id", "judge_model", "key"} <= content.keys():
            usage = Usage(**content.pop("usage", {}))
            content.setdefault("rubric", "")
            yield Judgement(**{key: value for key, value in content.items() if key in names}, usage=usage)


def _shown_as_before(item: JudgeItem) -> bool:
    return all(shown_as_before(text) for text in (item.context or "", *item.blocks.values()))


def _upgrade_judgement(line: dict[str, Any]) -> dict[str, Any]:
    """Rename the keys of earlier versions."""
    return {_OLD_KEYS.get(key, key): value for key, value in line.items()}
