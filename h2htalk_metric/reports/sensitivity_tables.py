"""Tables of `h2htalk describe --sensitivity`."""

__all__ = ["fact_check_section", "sensitivity_section"]

from collections.abc import Sequence

from h2htalk_metric.metrics.sensitivity import ALL, FactCheck, Reaction
from h2htalk_metric.reports.rendering import dimension_of
from h2htalk_metric.reports.run_tables import COMPONENT_LABELS
from h2htalk_metric.reports.table import DETECTABLE_PAIRED, Column, Row, Section, Table, ends, numbers, shown
from h2htalk_metric.stats.intervals import Interval


def sensitivity_section(reactions: Sequence[Reaction]) -> Section:
    """How S and its components change when good answers are made worse."""
    overall = [one for one in reactions if one.group == ALL]
    return Section(
        "sensitivity",
        "What S sees",
        (
            "Good answers (the dataset's second references, scored against the first) were made worse in known ways. "
            "The change is the mean of S times 100 of the changed answers minus that of the same answers unchanged; "
            "intervals are 95%, clustered by relationship. `Not lower` is the share of answers whose changed version "
            f"scores at least as high. {DETECTABLE_PAIRED}",
            _reactions_table("S times 100, all configs", overall, "change", [one.distortion for one in overall]),
            _components_table(overall),
            *(_config_table(name, reactions) for name in dict.fromkeys(one.distortion for one in reactions)),
        ),
    )


def fact_check_section(checks: Sequence[FactCheck]) -> Section:
    """Precision and recall of the fact check on good answers and their falsified versions."""
    rows = [
        Row(
            (
                one.kinds,
                str(one.falsified),
                str(one.unchanged),
                shown(one.precision),
                shown(one.recall),
            )
        )
        for one in checks
    ]
    return Section(
        "facts",
        "What the fact check sees",
        (
            "The check flags an answer that states a name, time, day or number that contradicts its prompt. Recall is "
            "the share of falsified answers that it flags; precision is the share of falsified ones among all flagged "
            "answers, with as many unchanged as falsified answers.",
            Table(
                "Fact check",
                (Column("kinds", "text"), *numbers("falsified", "unchanged", "precision", "recall")),
                tuple(rows),
            ),
        ),
    )


def _reactions_table(title: str, reactions: Sequence[Reaction], label: str, names: Sequence[str]) -> Table:
    rows = tuple(
        Row(
            (
                name,
                str(one.n),
                shown(one.original),
                shown(one.distorted),
                ends(one.difference, "+.2f"),
                shown(one.detectable),
                f"{100 * (one.distorted / one.original - 1):+.0f}%",
                f"{100 * one.not_lower.value:.0f}%",
                ends(Interval(*(100 * value for value in one.not_lower)), ".0f"),
            ),
            dimension_of(name) if name not in (one.distortion, ALL) else "",
            emphasized=name == ALL,
        )
        for name, one in zip(names, reactions, strict=True)
    )
    columns = numbers(
        "n", "S before", "S after", "95% interval", "detectable", "relative", "not lower", "95% interval, %"
    )
    return Table(title, (Column(label, "text"), *columns), rows)


def _config_table(distortion: str, reactions: Sequence[Reaction]) -> Table:
    of_distortion = [one for one in reactions if one.distortion == distortion]
    return _reactions_table(f"{distortion}, per config", of_distortion, "config", [one.group for one in of_distortion])


def _components_table(reactions: Sequence[Reaction]) -> Table:
    rows = tuple(Row((one.distortion, *(f"{value:+.1f}" for value in one.components))) for one in reactions)
    columns = (Column("change", "text"), *numbers(*COMPONENT_LABELS.values()))
    return Table("Change of the components, times 100", columns, rows)
