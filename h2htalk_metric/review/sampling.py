"""Which answers of a run people see: the flagged ones and controls, or a random sample."""

__all__ = ["review_items", "sample_controls", "sample_items"]

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.prompts import render, render_probe
from h2htalk_metric.judge.blend import TAU, flagged
from h2htalk_metric.judge.judge_items import JudgeItem, judge_items
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.judge.panel_scores import panel_scores
from h2htalk_metric.review.review_item import Group, Part, ReviewItem, parts_of
from h2htalk_metric.runs.run import Run

_MAX_CONTROLS = 20  # as many controls as flagged answers, up to this


def review_items(
    run: Run | str | Path, *, count: int | None = None, controls: int | None = None, seed: int = 0
) -> list[ReviewItem]:
    """Choose the answers of a complete run that people mark.

    Args:
        run: the run, or its folder. Of a probe run, all answers or `count` of them are chosen.
        count: sample this number of answers of the judged tasks; None: choose by the judge's scores.
        controls: see :func:`sample_controls`.
        seed: of the random choice.

    Raises:
        H2HTalkError: the run is not complete, has no judgements (and no `count`), or nothing to review.

    """
    run = Run.of(run)
    records = {record["id"]: record for record in run.records}
    items = {item.id: item for item in judge_items(run)}
    if run.is_probe_run or count is not None:
        groups = sample_items(list(items), count or len(items), seed)
    else:
        groups = _by_judge(run, controls, seed)
    return [_review_item(run, records[i], items[i], group) for i, group in groups.items()]


def sample_controls(
    j: Mapping[str, float], tau: float = TAU, *, controls: int | None = None, seed: int = 0
) -> dict[str, Group]:
    """Choose all flagged answers, and a random sample of the others as controls, so people see not only low scores.

    Args:
        j: J by record id, 0..5.
        tau: an answer with a lower J is flagged (Eq. 4).
        controls: number of controls; None: as many as flagged answers, up to 20.
        seed: of the random sample.

    Returns:
        Group by record id.

    Raises:
        H2HTalkError: nothing is flagged and there are no controls.

    """
    low = [record_id for record_id, value in j.items() if flagged(value, tau)]
    others = sorted(j.keys() - set(low))
    size = min(len(low), _MAX_CONTROLS) if controls is None else controls
    chosen = random.Random(f"controls {seed}").sample(others, min(size, len(others)))
    if not low and not chosen:
        raise H2HTalkError(f"no judged answer has a J below tau = {tau:g}; name --controls N to review some of them")
    groups: dict[str, Group] = dict.fromkeys(low, "flagged")
    return groups | dict.fromkeys(chosen, "control")


def sample_items(ids: Sequence[str], count: int, seed: int = 0) -> dict[str, Group]:
    """Choose `count` of the ids at random, or all if there are fewer; returns the group by id."""
    return dict.fromkeys(random.Random(f"sample {seed}").sample(sorted(ids), min(count, len(ids))), "sample")


def _by_judge(run: Run, controls: int | None, seed: int) -> dict[str, Group]:
    panel = Panel.read(run.path)
    if panel is None:
        raise H2HTalkError(
            f"{run.path} has no judgements; run: h2htalk judge {run.path} --judge MODEL, or review a sample without "
            f"them: h2htalk review {run.path} --sample N"
        )
    table = panel_scores(run).dropna(subset="j_with_judge")
    return sample_controls(
        dict(zip(table["id"], table["j_with_judge"], strict=True)), panel.tau, controls=controls, seed=seed
    )


def _review_item(run: Run, record: dict[str, Any], item: JudgeItem, group: Group) -> ReviewItem:
    parts: tuple[Part, ...]
    if run.is_probe_run:  # what a judge sees, which does not reveal the variant of SAP
        shown = parts_of(render_probe(record, sap=False), record["persona"])
        parts = (*shown, Part("For this answer", item.item_context or ""))
    else:
        parts = parts_of(render(record, set(run.manifest["prompts"]["sap"])), record["persona"])
    task = record["probe"] if run.is_probe_run else record["task"]
    return ReviewItem(item.id, task, parts, item.blocks["reference"], item.blocks["answer"], item.rubric, group)
