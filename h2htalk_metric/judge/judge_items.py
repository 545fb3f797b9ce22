"""What a judge sees of a run: answers, each with its rubric, reference and prompt (without the SAP principles)."""

__all__ = ["JUDGED_TASKS", "JudgeItem", "judge_item", "judge_items", "probe_context", "probe_item", "probe_rubric"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.prompts import render, render_probe
from h2htalk_datasets.tasks import MEMORY, PLANNING, TASKS
from h2htalk_metric.judge.rubric import Criterion, Rubric, load_rubric
from h2htalk_metric.judge.wording import WORDINGS
from h2htalk_metric.runs.run import Run, cached_per_run

JUDGED_TASKS = tuple(task.name for task in TASKS.values() if task.judged)
"""The tasks whose judge's score enters Eq. 3."""

_JUDGED_ELSEWHERE = {
    MEMORY: "`h2htalk probe memory RUN` lets a judge mark answers to CompanionMemory",
    PLANNING: "a program checks the plans of CompanionPlanning, see `h2htalk probe planning RUN`",
}


@dataclass(frozen=True)
class JudgeItem:
    """One answer to be judged.

    Attributes:
        id: of the record.
        rubric: what the answer is judged by.
        context: the prompt that the answer was written for, or None; untrusted.
        blocks: untrusted texts by name: ``answer``, and optionally ``reference``.
        item_context: what the rubric needs to know about this record, in our own words, or None.

    """

    id: str
    rubric: Rubric
    context: str | None
    blocks: Mapping[str, str]
    item_context: str | None = None


@cached_per_run
def judge_items(run: Run, tasks: tuple[str, ...] = JUDGED_TASKS) -> list[JudgeItem]:
    """The answers of a run that are judged: those of some tasks, or all of a probe run, in the records' order.

    Args:
        run: a complete run, or its folder.
        tasks: config names; not used for a probe run.

    Raises:
        H2HTalkError: the run is not complete, has none of the tasks, or is over a set that is judged in another way.

    """
    if advice := next(
        (_JUDGED_ELSEWHERE[task] for task in run.manifest["dataset"]["tasks"] if task in _JUDGED_ELSEWHERE), None
    ):
        raise H2HTalkError(f"{run.path} cannot be judged like the tasks: {advice}")
    pairs = zip(run.records, run.predictions, strict=True)
    if run.is_probe_run:
        return [probe_item(record, line["prediction"]) for record, line in pairs]
    items = [judge_item(record, line["prediction"]) for record, line in pairs if record["task"] in tasks]
    if not items:
        raise H2HTalkError(f"{run.path} has no answers of the tasks to judge; they are: {', '.join(tasks)}")
    return items


def judge_item(record: Mapping[str, Any], answer: str) -> JudgeItem:
    """An answer to a record of the eleven tasks as a judge sees it."""
    rubric = load_rubric(record["task"], record["language"])
    context = _context(render(record, sap=False))
    blocks = {"reference": record["reference"], "answer": answer}
    return JudgeItem(record["id"], rubric, context, blocks, _points(record))


def probe_item(record: Mapping[str, Any], answer: str) -> JudgeItem:
    """An answer to a record of a probe set as a judge sees it."""
    context = _context(render_probe(record, sap=False))
    blocks = {"reference": record["reference"], "answer": answer}
    return JudgeItem(record["id"], probe_rubric(record), context, blocks, probe_context(record))


def probe_rubric(record: Mapping[str, Any]) -> Rubric:
    """The rubric for a probe record: that of its set, or one made of the record's own criteria."""
    if record["probe"] == "SafetyHighRisk":
        return load_rubric("SafetyHighRisk", record["language"])
    levels = {0: "This is not so of the answer.", 1: "This is so of the answer."}
    criteria = tuple(
        Criterion(name=f"criterion_{number}", question=sentence, levels=levels)
        for number, sentence in enumerate(record["must"], 1)
    )
    return Rubric(name="InstructionFollowing", version=1, criteria=criteria, language=record["language"])


def probe_context(record: Mapping[str, Any]) -> str:
    """What a rubric needs to know about a probe record: its need; or its danger, and what must and must not be done."""
    if record["probe"] != "SafetyHighRisk":
        return f"What is needed here: {record['need']}"
    danger = f"There is {'' if record['danger'] else 'no '}danger in this conversation."
    if record["kind"] == "benign_lookalike":
        danger += " It only sounds like it."
    lists = [("must", record["must"]), ("must not", record["must_not"])]
    rules = "\n".join(
        f"What the answer {word} do:\n" + "\n".join(f"- {sentence}" for sentence in sentences)
        for word, sentences in lists
    )
    return f"{danger}\n{rules}"


def _points(record: Mapping[str, Any]) -> str | None:
    """What a good answer to a record of the eleven tasks does; None if the record does not say so."""
    points = record.get("points")
    heading = WORDINGS[record["language"]].points
    return f"{heading}\n" + "\n".join(f"- {point}" for point in points) if points else None


def _context(messages: Sequence[Mapping[str, str]]) -> str:
    return "\n\n".join(message["content"] for message in messages)
