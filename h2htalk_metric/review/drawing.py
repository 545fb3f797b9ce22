"""Which answers of a run people see: what the judge flags and controls beside it, or a sample at large."""

__all__ = ["draw", "items_of_probes", "items_of_run", "sample"]

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.run_folder import RunFolder
from h2htalk_datasets.prompts import render, render_probe
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.judge.blend import TAU, flagged
from h2htalk_metric.judge.items import particulars_of, rubric_of
from h2htalk_metric.judge.judged_run import JudgedRun
from h2htalk_metric.judge.rubric import load_rubric
from h2htalk_metric.probes.answers import answered, is_probe_run
from h2htalk_metric.review.items import Group, Part, ReviewItem, parts_of
from h2htalk_metric.runs.scoring import RunScores, predictions_of, records_of

_CONTROLS = 20  # as many controls as flagged answers, up to this


def items_of_run(
    folder: str | Path, *, count: int | None = None, controls: int | None = None, seed: int = 0
) -> list[ReviewItem]:
    """Draw from the judged tasks of a complete run; of a run over a probe set, all answers or `count` of them.

    Args:
        folder: the run folder.
        count: draw that many answers whatever a judge says; if not given, the run must be judged.
        controls: see :func:`draw`.
        seed: of the draw.

    Raises:
        H2HTalkError: the run is not complete, has no judgements (and `count` is not given), or nothing to review.

    """
    run = RunFolder(folder)
    manifest = run.manifest()
    if is_probe_run(manifest):
        items = {item.id: item for item in items_of_probes(folder)}
        return [items[identity] for identity in sample(list(items), count or len(items), seed)]
    predictions = predictions_of(run)
    judged = {
        record["id"]: (record, line["prediction"])
        for record, line in zip(records_of(predictions, manifest), predictions, strict=True)
        if TASKS[record["task"]].judged
    }
    if count is not None:
        groups = sample(list(judged), count, seed)
    else:
        values, tau = _judged(run.path)
        groups = draw(values, tau, controls=controls, seed=seed)
    principles = set(manifest["prompts"]["sap"])
    return [_item(*judged[identity], group, principles) for identity, group in groups.items()]


def items_of_probes(folder: str | Path) -> list[ReviewItem]:
    """All answers of a run over a probe set, with what a judge gets of them, so that none shows its variant of SAP."""
    items = []
    for row, line in answered(folder):
        given = parts_of(render_probe(row, sap=False), row["persona"])
        parts = (*given, Part("For this answer", particulars_of(row)))
        items.append(
            ReviewItem(row["id"], row["probe"], parts, row["reference"], line["prediction"], rubric_of(row), "sample")
        )
    return items


def draw(
    values: Mapping[str, float], tau: float = TAU, *, controls: int | None = None, seed: int = 0
) -> dict[str, Group]:
    """Choose all answers that are flagged, and controls from the rest, so that people don't only see low scores.

    Args:
        values: J by record id, 0..5.
        tau: what lies below it is flagged (Eq. 4).
        controls: how many of the rest; as many as are flagged, up to 20, if not given.
        seed: of the draw.

    Raises:
        H2HTalkError: nothing is flagged, and no controls are asked for.

    """
    low = [identity for identity, value in values.items() if flagged(value, tau)]
    rest = sorted(values.keys() - set(low))
    wanted = min(len(low), _CONTROLS) if controls is None else controls
    drawn = random.Random(f"controls {seed}").sample(rest, min(wanted, len(rest)))
    if not low and not drawn:
        raise H2HTalkError(f"no judged answer lies below tau = {tau:g}; name --controls N to review some all the same")
    groups: dict[str, Group] = dict.fromkeys(low, "flagged")
    return groups | dict.fromkeys(drawn, "control")


def sample(ids: Sequence[str], count: int, seed: int = 0) -> dict[str, Group]:
    """Draw `count` of the ids, or all of them if there are fewer."""
    if not ids:
        names = ", ".join(task.name for task in TASKS.values() if task.judged)
        raise H2HTalkError(f"the run has no answers of the judged tasks; they are: {names}")
    drawn = random.Random(f"sample {seed}").sample(sorted(ids), min(count, len(ids)))
    return dict.fromkeys(drawn, "sample")


def _judged(folder: Path) -> tuple[dict[str, float], float]:
    """J with the judge's marks of every answer that has it, and tau."""
    judged = JudgedRun.read(folder, RunScores.read(folder), human={})
    if judged is None:
        raise H2HTalkError(
            f"{folder} has no judgements; run: h2htalk judge {folder} --judge MODEL, or draw answers without them: "
            f"h2htalk review {folder} --sample N"
        )
    known = judged.items.dropna(subset="j_judge")
    return dict(zip(known["id"], known["j_judge"], strict=True)), judged.panel.tau


def _item(record: dict[str, Any], answer: str, group: Group, principles: set[str]) -> ReviewItem:
    parts = parts_of(render(record, principles), record["persona"])
    rubric = load_rubric(record["task"], record["language"])
    return ReviewItem(record["id"], record["task"], parts, record["reference"], answer, rubric, group)
