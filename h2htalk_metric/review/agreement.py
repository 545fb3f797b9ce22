"""How far people agree with each other and with the judge."""

__all__ = [
    "Agreement",
    "JudgeAgreement",
    "PeopleAgreement",
    "agreement",
    "agreement_lines",
    "agreement_rows",
    "agreement_table",
]

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
from rich.table import Table

from h2htalk_datasets.generation.run_folder import RunFolder
from h2htalk_metric.judge.items import probe_items
from h2htalk_metric.judge.judged_run import JudgedRun
from h2htalk_metric.judge.marks import judge_marks
from h2htalk_metric.probes.answers import answered, is_probe_run
from h2htalk_metric.reports.markdown import markdown_table
from h2htalk_metric.review.database import Marking, Reviews
from h2htalk_metric.review.items import GROUPS, ReviewItem
from h2htalk_metric.review.protocol import mean_mark, on_scale
from h2htalk_metric.review.scores import human_scores
from h2htalk_metric.runs.scoring import RunScores
from h2htalk_metric.stats.agreement import krippendorff_alpha
from h2htalk_metric.stats.intervals import Interval, mean_interval

_HEADS = ["items", "drawn", "settled", "two raters", "alpha", "with judge", "alpha", "Spearman", "judge - people"]


class PeopleAgreement(NamedTuple):
    """The first two raters of each item against each other; a third is asked only where these differ.

    Attributes:
        items: that have two raters.
        alpha: Krippendorff's, ordinal, of the raters' means per item.
        criteria: the same of the marks for each criterion.

    """

    items: int
    alpha: float | None
    criteria: dict[str, float | None]


class JudgeAgreement(NamedTuple):
    """The judge's scores against people's, item by item.

    Attributes:
        items: that both have scored.
        alpha: Krippendorff's, ordinal.
        spearman: rank correlation.
        difference: judge less people on 0..5, its mean with a 95% bootstrap interval, of a probe set drawn by
            scenario.

    """

    items: int
    alpha: float | None
    spearman: float | None
    difference: Interval | None


class Agreement(NamedTuple):
    """Of one group of items; what is undefined for want of items or of different marks is None.

    Attributes:
        drawn: items of the group.
        settled: those with a score by people.
        people: among people.
        judge: between judge and people; None where the run is not judged.

    """

    drawn: int
    settled: int
    people: PeopleAgreement
    judge: JudgeAgreement | None


def agreement(run_folder: str | Path) -> dict[str, Agreement]:
    """Agreement by group (``flagged``, ``control``, ``sample``, those that there are) and of ``all``.

    Flagged items were chosen for their low scores, so figures over all items are no estimate for the whole run.

    Raises:
        H2HTalkError: the run has no reviews.

    """
    reviews = Reviews(run_folder)
    markings = reviews.markings()
    people, judged = human_scores(run_folder), _judged(Path(run_folder))
    groups = {group: [i for i in reviews.items.values() if i.group == group] for group in GROUPS}
    found = {group: items for group, items in groups.items() if items} | {"all": list(reviews.items.values())}
    return {
        group: Agreement(
            len(items),
            sum(item.id in people for item in items),
            _among_people(items, markings),
            None if judged is None else _judge_against_people([item.id for item in items], *judged, people),
        )
        for group, items in found.items()
    }


def agreement_table(found: Mapping[str, Agreement]) -> Table:
    """Agreement for a terminal."""
    table = Table(title="Agreement of reviews", title_justify="left")
    heads, *rows = agreement_rows(found)
    for head in heads:
        table.add_column(head, justify="left" if head == "items" else "right")
    for cells in rows:
        table.add_row(*cells)
    return table


def agreement_lines(found: Mapping[str, Agreement]) -> list[str]:
    """Agreement for report.md."""
    heads, *rows = agreement_rows(found)
    return [
        "",
        "## Reviewed by people",
        "",
        *markdown_table(heads, rows),
        "",
        "`settled` items have two raters who agree, or three. `alpha` is Krippendorff's (ordinal, of means per item),",
        "among the first two raters of each item, and between judge and people. The difference is on 0 to 5, with a",
        "95% interval. Flagged items were chosen for low scores, so `all` is no estimate for the whole run.",
    ]


def agreement_rows(found: Mapping[str, Agreement]) -> list[list[str]]:
    """Agreement as the cells of a table, its heads first."""
    rows = [_HEADS]
    for group, one in found.items():
        cells = [group, str(one.drawn), str(one.settled), str(one.people.items), _figure(one.people.alpha)]
        judge = one.judge or JudgeAgreement(0, None, None, None)
        gap = judge.difference
        difference = f"{gap.value:+.2f} ({_ends(gap)})" if gap else "-"
        rows.append([*cells, str(judge.items), _figure(judge.alpha), _figure(judge.spearman), difference])
    return rows


def _among_people(items: Sequence[ReviewItem], markings: Mapping[str, Mapping[str, Marking]]) -> PeopleAgreement:
    pairs = [(item, [m.marks for m in markings[item.id].values()][:2]) for item in items]
    pairs = [(item, marks) for item, marks in pairs if len(marks) == 2]
    means = [[mean_mark(item.rubric, one) for one in marks] for item, marks in pairs]
    by_criterion: dict[str, list[list[float]]] = {}
    for item, marks in pairs:
        scaled = [on_scale(item.rubric, one) for one in marks]
        for name in scaled[0]:
            by_criterion.setdefault(name, []).append([one[name] for one in scaled])
    return PeopleAgreement(
        len(pairs), _ordinal_alpha(means), {name: _ordinal_alpha(both) for name, both in by_criterion.items()}
    )


def _judge_against_people(
    ids: Sequence[str], judge: Mapping[str, float], clusters: Mapping[str, str], people: Mapping[str, float]
) -> JudgeAgreement:
    from scipy.stats import spearmanr

    known = [identity for identity in ids if identity in judge and identity in people]
    both = [(judge[identity], people[identity]) for identity in known]
    if not both:
        return JudgeAgreement(0, None, None, None)
    gaps = [one - other for one, other in both]
    difference = mean_interval(gaps, [clusters[identity] for identity in known])
    varied = all(len(set(side)) > 1 for side in zip(*both, strict=True))
    rank = float(spearmanr(*zip(*both, strict=True)).statistic) if varied else None
    return JudgeAgreement(len(both), _ordinal_alpha(both), rank, difference)


def _ordinal_alpha(pairs: Sequence[Sequence[float]]) -> float | None:
    """Of pairs, one an item, each of the two raters' values."""
    # Means of the same marks may differ in the last bits; the ordinal distance would take them for two ranks.
    return krippendorff_alpha(np.round(np.array(pairs, dtype=float).T, 6), "ordinal") if pairs else None


def _judged(folder: Path) -> tuple[dict[str, float], dict[str, str]] | None:
    """By id J_judge, 0..5, and what is drawn together: a probe set's scenario, or the item; None if nobody judged."""
    if not (folder / "judge.json").exists():
        return None
    if is_probe_run(RunFolder(folder).manifest()):
        return _probe_scores(folder), {row["id"]: row["scenario"] for row, _ in answered(folder)}
    judged = JudgedRun.read(folder, RunScores.read(folder), human={})
    assert judged is not None  # judge.json is there
    known = judged.items.dropna(subset="judge")
    return dict(zip(known["id"], known["judge"], strict=True)), {identity: identity for identity in known["id"]}


def _probe_scores(folder: Path) -> dict[str, float]:
    """A judge's scores of answers to a probe set on the scale of people's, 0..5: the mean over its verdicts."""
    items = probe_items(folder)
    rubrics = {item.id: item.rubric for item in items}
    marks = judge_marks(folder, items)
    assert marks is not None  # judge.json is there
    return {
        identity: fmean(mean_mark(rubrics[identity], verdict) for verdict in verdicts)
        for identity, verdicts in marks.verdicts.items()
    }


def _ends(gap: Interval) -> str:
    return f"{gap.low:+.2f} to {gap.high:+.2f}" if gap.defined else "-"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
