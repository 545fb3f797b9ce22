"""Tables of the judged tasks and of the agreement between people and judges."""

__all__ = ["judged", "other_tasks", "reviewed"]

from collections.abc import Mapping

import pandas as pd

from h2htalk_metric.judge.flags import flag_summary
from h2htalk_metric.judge.judged_run import JudgedRun
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.judge.rubric import load_rubric
from h2htalk_metric.reports import svg
from h2htalk_metric.reports.run_tables import per_task
from h2htalk_metric.reports.table import (
    DETECTABLE,
    DETECTABLE_PAIRED,
    Bullets,
    Column,
    Row,
    Section,
    Table,
    ends,
    numbers,
    shown,
)
from h2htalk_metric.review.agreement import Agreement
from h2htalk_metric.review.estimate import Estimate
from h2htalk_metric.stats.clusters import ClusterSums
from h2htalk_metric.stats.intervals import Interval, mean_detectable, mean_interval, row_detectable, row_intervals

_MOST_REASONS = 5


def judged(judged_run: JudgedRun) -> Section:
    """J of the judged tasks (Eq. 3), how many answers have it, and how reliable the judges are."""
    panel, notes = judged_run.panel, _notes(judged_run)
    sources = (
        f"J_judge is the mean score of the judges: {', '.join(panel.judges)}. If people scored an answer, their score "
        "replaces J_judge."
        if panel.judges
        else "No judge scored this run: J_judge is the score by people, and only answers that people scored have a J."
    )
    return Section(
        "judged",
        "Judged",
        (
            flag_summary(judged_run.items, panel),
            f"J = {panel.alpha:g} S5 + {1 - panel.alpha:g} J_judge (Eq. 3), from 0 to 5, with {_s5(panel)} of these "
            f"answers. {sources} J does not change S. Intervals are 95%.",
            _means(judged_run),
            "Unscored answers have no J_judge and are left out of its mean. Flagged answers are for people to review: "
            f"{_flagging(panel)}. The position bias is the score with "
            "the answer shown first minus the score with the reference shown first. The judge range is the highest "
            "judge's score minus the lowest judge's.",
            _counts(judged_run),
            *([Bullets(tuple(notes))] if notes else []),
        ),
    )


def other_tasks(rows: pd.DataFrame, panel: Panel) -> Section:
    """Scores of the judges for tasks that do not enter Eq. 3.

    Args:
        rows: see :func:`h2htalk_metric.judge.panel_scores.other_task_scores`.
        panel: who judged, and how.

    """
    cells = {}
    for task, of_task in rows.groupby("task", sort=False):
        interval = mean_interval(of_task["judge_score"].to_numpy(), list(of_task["relationship"]), bounds=(0, 5))
        cells[str(task)] = (
            str(len(of_task)),
            str(of_task["unscored"].notna().sum()),
            shown(100 * of_task["composite"].mean(), ".1f"),
            shown(interval.value if interval else None),
            ends(interval),
            shown(mean_detectable(of_task["judge_score"].to_numpy(), list(of_task["relationship"]))),
            shown(of_task["position_bias"].mean()),
        )
    columns = numbers("n", "unscored", "S", "judge_score", "95% interval", "detectable", "position bias")
    language = str(rows["id"].iat[0]).partition("-")[0]
    rubrics = ", ".join(f"{task} {load_rubric(task, language).hash}" for task in cells)
    reasons = [f"unscored, {count}: {reason[:200]}" for reason, count in rows["unscored"].value_counts().items()]
    return Section(
        "judged-others",
        "Judged, other tasks",
        (
            "Mean score of the judges, from 0 to 5, for tasks that do not enter Eq. 3: the score stands next to S and "
            f"does not change it. Judges: {', '.join(panel.judges)}; rubrics: {rubrics}. Intervals are clustered by "
            "relationship.",
            per_task("judge_score of other tasks, 0 to 5", columns, cells, notes=(DETECTABLE,)),
            *([Bullets(tuple(reasons[:_MOST_REASONS]))] if reasons else []),
        ),
    )


def _s5(panel: Panel) -> str:
    if panel.scale.name == "paper":
        return "S5 = 5 S"
    ceilings = ", ".join(f"{task} {mean:.3f}" for task, mean in panel.scale.ceilings.items())
    return (
        "S5 = 5 S / ceiling, at most 5 (scale 'ceiling', not the paper's), where the ceiling is the mean S of a "
        f"competent independent writer ({ceilings}; {panel.scale.embedder}),"
    )


def _flagging(panel: Panel) -> str:
    if panel.tau_share is not None:
        return f"the {100 * panel.tau_share:g}% with the lowest J with the judge"
    return f"their J with the judge is below tau = {panel.tau:g} (Eq. 4)"


def reviewed(agreement: Mapping[str, Agreement], estimate: Estimate | None = None) -> Section:
    """What people's scores say about all judged answers, and how far people agree with each other and the judge.

    Args:
        agreement: per group of answers.
        estimate: for all judged answers; None: not shown.

    """
    return Section(
        "reviewed",
        "Reviewed by people",
        (
            *([_estimate(estimate)] if estimate else []),
            _agreement(agreement),
            "Resolved items have two raters who agree, or three raters. Alpha is Krippendorff's (ordinal, over the "
            "mean mark of each item): among the first two raters of each item, and between judge and people. The "
            "difference is on the scale 0 to 5, with its 95% interval. The items were chosen by their J, so 'all' "
            "describes the reviewed items and not the whole run.",
            *([Bullets(tuple(stale))] if (stale := _stale(agreement["all"].stale)) else []),
        ),
    )


def _estimate(estimate: Estimate) -> str:
    """One paragraph: estimates for all judged answers, or why there are none."""
    if estimate.unavailable:
        return f"There is no estimate for all judged answers: {estimate.unavailable}."
    assert estimate.human_score is not None  # it is available
    about = f"Estimates for all {estimate.population} judged answers from {estimate.resolved} resolved items"
    score = f"mean human score {_with_interval(estimate.human_score)} of 5"
    below = ""
    if estimate.below_tau:
        below = f"; share with J below tau, with human scores: {_with_interval(estimate.below_tau)}"
    unresolved = estimate.sampled - estimate.resolved
    assumed = f" The {unresolved} unresolved items are assumed to be like the others." if unresolved else ""
    return (
        f"{about}: {score}{below}. Each item counts with the inverse of its inclusion probability; 95% intervals are "
        f"clustered by relationship.{assumed}"
    )


def _with_interval(interval: Interval) -> str:
    return f"{interval.value:.2f} ({ends(interval)})" if interval.defined else f"{interval.value:.2f} (no interval)"


def _agreement(agreement: Mapping[str, Agreement]) -> Table:
    rows = []
    for group, one in agreement.items():
        judge = one.judge
        difference = judge.difference if judge else None
        cells = (
            group,
            str(one.sampled),
            str(one.resolved),
            str(one.people.items),
            shown(one.people.alpha),
            str(judge.items if judge else 0),
            shown(judge.alpha if judge else None),
            shown(judge.spearman if judge else None),
            (shown(difference.value, "+.2f"), ends(difference, "+.2f")) if difference else "-",
            shown(judge.detectable if judge else None),
        )
        rows.append(Row(cells))
    people_heads = ("items", "resolved", "two raters", "alpha (people)")
    heads = (*people_heads, "with judge", "alpha (judge)", "Spearman", "judge - people", "detectable")
    columns = (Column("group", "text"), *numbers(*heads))
    return Table("Agreement of reviews", columns, tuple(rows), notes=(DETECTABLE_PAIRED,))


def _means(judged_run: JudgedRun) -> Table:
    values = judged_run.values()
    sums = ClusterSums.of(values, judged_run.clusters())
    intervals, detectable = row_intervals(sums, bounds=(0, 5)), row_detectable(sums)
    cells, panel = {}, judged_run.panel
    tau = panel.tau if panel.tau_share is None else None
    for task, line in judged_run.by_task().to_dict("index").items():
        interval = intervals.get(task)
        means = [shown(line["s5"]), shown(line["judge_score"]), shown(line["j"]), shown(20 * line["j"])]
        plot = svg.whisker(interval, 5, tau) if interval else ""
        cells[task] = (*means, ends(interval), shown(detectable.get(task)), plot)
    wide = (Column("95% interval", narrow=False), Column("detectable", narrow=False), Column(svg.ticks(5), "plot"))
    columns = (*numbers("S5", "J_judge", "J", "J × 20"), *wide)
    title = f"J, 0 to 5, scored by {', '.join(panel.judges) or 'people'}"
    note = "" if tau is None else f"The dashed line is tau = {tau:g}."
    return per_task(title, columns, cells, notes=(DETECTABLE,), plot_note=note)


def _counts(judged_run: JudgedRun) -> Table:
    columns = numbers("n", "with J", "unscored", "flagged", "reviewed", "position bias", "judge range")
    cells = {}
    for task, line in judged_run.by_task().to_dict("index").items():
        counts = [str(int(line[name])) for name in ("n", "with_j", "unscored", "flagged", "reviewed")]
        cells[task] = (*counts, shown(line["position_bias"]), shown(line["judge_range"]))
    return per_task("Judged answers", columns, cells)


def _notes(judged_run: JudgedRun) -> list[str]:
    """Agreement of the panel, and why answers are unscored."""
    notes = []
    if agreement := judged_run.panel_agreement():
        criteria = [value for name, value in agreement.items() if name != "score" and value is not None]
        note = f"Agreement of the panel (Krippendorff's alpha, interval): scores {shown(agreement['score'])}"
        notes.append(note + (f", single criteria {min(criteria):.2f} to {max(criteria):.2f}" if criteria else ""))
    notes += _stale(judged_run.stale)
    reasons = list(judged_run.reasons().items())
    notes += [f"unscored, {count}: {reason[:200]}" for reason, count in reasons[:_MOST_REASONS]]
    if len(reasons) > _MOST_REASONS:
        notes.append(f"unscored for {len(reasons) - _MOST_REASONS} other reasons: see judgements.jsonl")
    return notes


def _stale(reasons: Mapping[str, int]) -> list[str]:
    """Why saved marks of people count nowhere."""
    return [f"stale marks of {count} items count nowhere: {reason}" for reason, count in reasons.items()]
