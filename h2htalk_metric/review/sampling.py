"""Which answers of a run people see, and the probability with which each was chosen.

After a judge: flagged answers and controls, at most as many as two raters can mark. They are stratified by config and
tercile of J, and every judged answer has a known chance, so estimates for the whole run are unbiased
(:mod:`h2htalk_metric.review.estimate`). Without a judge: a simple random sample.
"""

__all__ = ["MOST", "Choice", "review_items", "sample_by_j", "sample_items", "start_review"]

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.requests import templates_of
from h2htalk_datasets.prompts import render, render_probe
from h2htalk_metric.judge.judge_items import JudgeItem, judge_items
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.judge.panel_scores import panel_scores
from h2htalk_metric.review.review_item import Group, Part, ReviewItem, parts_of
from h2htalk_metric.review.reviews import Reviews
from h2htalk_metric.runs.run import Run

MOST = 100
"""Answers in a review: two raters who need five minutes for each mark them in eight hours per person."""
_FEWEST_CONTROLS = 20  # if there are as many; estimates for all answers need them
_PER_STRATUM = 2


class Choice(NamedTuple):
    """Why and with which probability an answer is in a review.

    Attributes:
        group: see :data:`h2htalk_metric.review.review_item.GROUPS`.
        probability: inclusion probability, above 0, at most 1.

    """

    group: Group
    probability: float


def start_review(
    run: Run | str | Path,
    *,
    sample: int | None = None,
    most: int | None = None,
    controls: int | None = None,
    seed: int = 0,
) -> Reviews:
    """Choose the answers of a run and create its review; see :func:`review_items` for arguments and errors.

    The settings of the review contain `population`: the number of answers that the chosen ones were chosen from.
    """
    run = Run.of(run)
    run.check_one_language()  # raters read one language, and their scores enter one J
    most = MOST if most is None and sample is None and not run.is_probe_run else most
    items = review_items(run, count=sample, most=most, controls=controls, seed=seed)
    from_all = run.is_probe_run or sample is not None
    population = len(judge_items(run)) if from_all else int(panel_scores(run)["j_with_judge"].count())
    settings = {"sample": sample, "most": most, "controls": controls, "seed": seed, "population": population}
    return Reviews.create(run.path, items, settings)


def review_items(
    run: Run | str | Path,
    *,
    count: int | None = None,
    most: int | None = None,
    controls: int | None = None,
    seed: int = 0,
) -> list[ReviewItem]:
    """Choose the answers of a complete run that people mark.

    Args:
        run: the run, or its folder. Of a probe run, all answers or `count` of them are chosen.
        count: sample this number of answers of the judged tasks; None: choose by the judge's scores.
        most: see :func:`sample_by_j`; None: :data:`MOST`.
        controls: see :func:`sample_by_j`.
        seed: of the random choice.

    Raises:
        H2HTalkError: the run is not complete, has no judgements (and no `count`), or nothing to review; or an option
            does not apply.

    """
    run = Run.of(run)
    records = {record["id"]: record for record in run.records}
    items = {item.id: item for item in judge_items(run)}
    if run.is_probe_run or count is not None:
        if most is not None or controls is not None:
            raise H2HTalkError("--most and --controls choose by the judge's scores; omit them here, or omit --sample")
        chosen = sample_items(list(items), count or len(items), seed)
    else:
        chosen = sample_by_j(_judged_rows(run), most=MOST if most is None else most, controls=controls, seed=seed)
    return [_review_item(run, records[i], items[i], choice) for i, choice in chosen.items()]


def sample_by_j(
    rows: pd.DataFrame, *, most: int = MOST, controls: int | None = None, seed: int = 0
) -> dict[str, Choice]:
    """Choose flagged answers, and others as controls, so people see not only low scores.

    Both groups are stratified by config and by tercile of J within the config, with sizes proportional to the strata. A
    group with less than two answers per stratum is stratified by config only, or not at all. Within a stratum all
    answers have the same chance.

    Args:
        rows: one per judged answer; columns id, task, j_with_judge (0..5) and flagged.
        most: number of answers to choose, controls included.
        controls: number of controls; None: in proportion to their number, at least 20, at most half of `most`.
        seed: of the random choice.

    Returns:
        Choice by record id, in the order of the rows.

    Raises:
        H2HTalkError: nothing is flagged and there are no controls, or more controls than `most`.

    """
    if controls is not None and controls > most:
        raise H2HTalkError(f"--controls {controls} is more than --most {most}, which includes the controls")
    rows = rows.assign(tercile=_terciles(rows))
    low, others = rows[rows["flagged"].astype(bool)], rows[~rows["flagged"].astype(bool)]
    if low.empty and not controls:
        raise H2HTalkError("no judged answer is flagged; name --controls N to review some of the others")
    proportional = round(most * len(others) / len(rows))
    wanted = min(max(proportional, _FEWEST_CONTROLS), most // 2) if controls is None else controls
    num_controls = min(wanted, len(others))
    chosen = {
        **_stratified(low, min(len(low), most - num_controls), "flagged", seed),
        **_stratified(others, num_controls, "control", seed),
    }
    return {record_id: chosen[record_id] for record_id in rows["id"] if record_id in chosen}


def sample_items(ids: Sequence[str], count: int, seed: int = 0) -> dict[str, Choice]:
    """Choose `count` of the ids at random, or all if there are fewer; returns the choice by id."""
    size = min(count, len(ids))
    chosen = random.Random(f"sample {seed}").sample(sorted(ids), size)
    return dict.fromkeys(chosen, Choice("sample", size / max(1, len(ids))))


def _judged_rows(run: Run) -> pd.DataFrame:
    if Panel.read(run.path) is None:
        raise H2HTalkError(
            f"{run.path} has no judgements; run: h2htalk judge {run.path} --judge MODEL, or review a sample without "
            f"them: h2htalk review {run.path} --sample N"
        )
    return panel_scores(run).dropna(subset="j_with_judge")


def _terciles(rows: pd.DataFrame) -> pd.Series:
    """0, 1 or 2: the third of its config that an answer's J is in."""
    ranked = rows.sort_values(["j_with_judge", "id"]).groupby("task")
    return (3 * ranked.cumcount() // ranked["id"].transform("size")).reindex(rows.index)


def _stratified(rows: pd.DataFrame, size: int, group: Group, seed: int) -> dict[str, Choice]:
    """Choose `size` of the rows."""
    chosen: dict[str, Choice] = {}
    strata = _strata(rows, size)
    sizes = _allocate({name: len(ids) for name, ids in strata.items()}, size)
    for name, ids in strata.items():
        sampled = random.Random(f"{group} {name} {seed}").sample(sorted(ids), sizes[name])
        chosen |= dict.fromkeys(sampled, Choice(group, sizes[name] / len(ids)))
    return chosen


def _strata(rows: pd.DataFrame, size: int) -> dict[str, list[str]]:
    """Ids by stratum; the finest division in which every stratum gets two answers."""
    labels = [rows["task"] + " " + rows["tercile"].astype(str), rows["task"]]
    for label in labels:
        strata = {str(name): list(ids) for name, ids in rows.groupby(label)["id"]}
        if sum(min(_PER_STRATUM, len(ids)) for ids in strata.values()) <= size:
            return strata
    return {"all": list(rows["id"])} if size else {}


def _allocate(strata: Mapping[str, int], size: int) -> dict[str, int]:
    """Sizes of the samples: two per stratum where possible, the rest in proportion (Sainte-Lague's divisors)."""
    sizes = {name: min(_PER_STRATUM, available) for name, available in strata.items()}
    if len(strata) == 1:
        return dict.fromkeys(strata, size)
    while sum(sizes.values()) < size:
        unfilled = [name for name, available in strata.items() if sizes[name] < available]
        sizes[max(unfilled, key=lambda name: strata[name] / (2 * sizes[name] + 1))] += 1
    return sizes


def _review_item(run: Run, record: dict[str, Any], item: JudgeItem, choice: Choice) -> ReviewItem:
    parts: tuple[Part, ...]
    if run.is_probe_run:  # what a judge sees, which does not reveal the variant of SAP
        shown = parts_of(render_probe(record, sap=False), record["persona"])
        parts = (*shown, Part("For this answer", item.item_context or ""))
    else:
        parts = parts_of(
            render(record, set(run.manifest["prompts"]["sap"]), templates_of(run.manifest)), record["persona"]
        )
    task = record["probe"] if run.is_probe_run else record["task"]
    return ReviewItem(item.id, task, parts, item.blocks["reference"], item.blocks["answer"], item.rubric, *choice)
