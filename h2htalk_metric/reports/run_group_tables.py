"""The tables of a comparison of many runs: one row per run, best first."""

__all__ = ["configs", "group_sections", "ranking"]

import math
from collections.abc import Mapping, Sequence

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.judge.judged_slices import check_same_judging, judged_values
from h2htalk_metric.metrics.signature import signature_line
from h2htalk_metric.reports import svg
from h2htalk_metric.reports.rendering import dimension_of, short_name
from h2htalk_metric.reports.run_tables import by_dimension
from h2htalk_metric.reports.table import Cell, Code, Column, Figure, Row, Section, Table, ends, numbers, shown
from h2htalk_metric.runs.groups import LEVEL, RunGroup
from h2htalk_metric.runs.model_sizes import ModelSize
from h2htalk_metric.runs.slices import slices
from h2htalk_metric.stats.aggregate import AVERAGES
from h2htalk_metric.stats.intervals import Interval, mean_interval

_RUN = Column("run", "text")
_FACTORS = ("need", "difficulty")


def group_sections(group: RunGroup, sizes: Mapping[str, ModelSize]) -> list[Section]:
    """What a comparison says about runs that can be compared, except for single answers.

    Args:
        group: of at least two runs.
        sizes: family and size by label, of the runs for which they are known.

    """
    parts: dict[tuple[str, str], Sequence[str | Table | Code]] = {
        ("ranking", "Scores"): [ranking(group)],
        ("configs", "Configs"): [configs(group)],
        ("judged", "Judged"): _judged(group),
        ("slices", "By need and difficulty"): [table for factor in _FACTORS if (table := _levels(group, factor))],
        ("size", "Size"): [_by_size(group, sizes)],
        ("making", "How they were made"): [_making(group), *_signature(group)],
    }
    return [Section(anchor, title, tuple(blocks)) for (anchor, title), blocks in parts.items() if blocks]


def ranking(group: RunGroup) -> Table:
    """The mean of every run with its interval and its significance groups, and a radar of the best ones."""
    best = next(iter(group.runs))
    top = svg.axis_end(end for interval in group.means.values() for end in interval)
    rows = []
    for label, mean in group.means.items():
        test = group.tests.get((best, label))
        behind: Cell = ""
        if test is not None:
            interval = Interval(-test.difference, -test.high, -test.low)
            value = f"{interval.value:+.2f}"
            behind = (value, ends(interval, "+.2f")) if interval.defined else value
        cells: tuple[Cell, ...] = (
            label,
            " ".join(group.letters[label]),
            shown(mean.value),
            ends(mean, ".1f"),
            behind,
            "" if test is None else f"{test.p_holm:.4f}",
            svg.whisker(mean, top),
        )
        rows.append(Row(cells))
    columns = (
        _RUN,
        Column("group", "text"),
        Column(group.mean_name),
        Column("95% interval", narrow=False),
        Column("to the first"),
        Column("p (Holm)", narrow=False),
        Column(svg.ticks(top), "plot"),
    )
    notes = (
        "Runs that share a letter do not differ: p (Holm) >= 0.05, corrected over all pairs of runs. P-values are from "
        "random sign flips of whole clusters; intervals are 95% (Student's t with cluster-robust standard errors); "
        "clusters are relationships.",
        *_no_power(group),
    )
    return Table("S times 100", columns, tuple(rows), notes, _radar(group))


def _no_power(group: RunGroup) -> list[str]:
    """Say so if even equal signs of all clusters give a larger p than 5%."""
    clusters = min(test.clusters for test in group.tests.values())
    if 2 * len(group.tests) / 2**clusters < LEVEL:
        return []
    return [
        f"Relationships: {clusters}, pairs of runs: {len(group.tests)}. With so few relationships no difference can "
        "reach p (Holm) < 0.05."
    ]


def configs(group: RunGroup) -> Table:
    """S of every run in every config and average, with intervals."""
    cells = [*by_dimension(group.first.intervals()), *(one for one in AVERAGES if one in group.first.intervals())]
    rows = []
    for label, scores in group.scores.items():
        intervals = scores.intervals()
        rows.append(Row((label, *(_with_interval(intervals[cell]) for cell in cells))))
    return Table("S times 100 per config", (_RUN, *numbers(*cells)), tuple(rows))


def _radar(group: RunGroup) -> Figure | None:
    best = list(group.scores.items())[: svg.MAX_RADAR_LINES]
    lines = {}
    for label, scores in best:
        intervals = scores.intervals()
        lines[label] = {
            (dimension_of(task), short_name(task)): Interval(intervals[task].value, math.nan, math.nan)
            for task in by_dimension(intervals)
        }
    radar = svg.radar(lines, "Radar of the configs; the same numbers as in the table of configs")
    if radar is None:
        return None
    all_runs = len(best) == len(group.runs)
    return Figure(radar, "S per config." if all_runs else f"S per config of the first {len(best)} runs.")


def _judged(group: RunGroup) -> list[str | Table]:
    """J per judged config, if the runs were judged in the same way."""
    values = {label: of_run["j"] for label, run in group.runs.items() if "j" in (of_run := judged_values(run))}
    if not values:
        return []
    first = group.runs[next(iter(values))]
    try:
        for label in values:
            check_same_judging(first, group.runs[label])
    except H2HTalkError as error:
        return [f"J is not compared: {error}."]
    tasks = by_dimension(dict.fromkeys(group.first.items["task"][next(iter(values.values())).notna()]))
    rows = []
    for label, j in values.items():
        items = group.scores[label].items
        of_task = {task: items["task"] == task for task in tasks}
        means = (
            mean_interval(j[chosen].to_numpy(), items["relationship"][chosen].tolist(), bounds=(0, 5))
            for chosen in of_task.values()
        )
        rows.append(Row((label, *map(_with_interval, means))))
    return [Table("J, 0 to 5", (_RUN, *numbers(*tasks)), tuple(rows))]


def _levels(group: RunGroup, factor: str) -> Table | None:
    """S of every run at the levels of a factor; None for runs without this column."""
    parts = {label: slices(scores, factor) for label, scores in group.scores.items()}
    levels = {one.level: one.n for of_run in parts.values() for one in of_run}
    if not levels or any({one.level for one in of_run} != set(levels) for of_run in parts.values()):
        return None
    rows = tuple(Row((label, *(_with_interval(one.score) for one in of_run))) for label, of_run in parts.items())
    titles = (f"{factor} {level} (n = {n:,})" for level, n in levels.items())
    return Table(f"S times 100 by {factor}", (_RUN, *numbers(*titles)), rows)


def _by_size(group: RunGroup, sizes: Mapping[str, ModelSize]) -> Table | str:
    """The mean against the number of parameters, by family."""
    chosen = {label: sizes[label] for label in group.runs if label in sizes}
    if not chosen:
        return "No sizes are known. `--models FILE` names a file with parameters and families."
    families: dict[str, dict[str, tuple[float, Interval]]] = {}
    for label, size in sorted(chosen.items(), key=lambda item: item[1].parameters):
        families.setdefault(size.family, {})[label] = (size.parameters, group.means[label])
    rows = tuple(
        Row((label, family, f"{parameters:g}", *_value_and_ends(mean)))
        for family, members in families.items()
        for label, (parameters, mean) in members.items()
    )
    figure = svg.scale_plot(families, f"{group.mean_name} against the number of parameters, by family")
    missing = len(group.runs) - len(chosen)
    notes = ["Parameters are those of all experts.", *([f"Runs without a known size: {missing}."] if missing else [])]
    return Table(
        f"{group.mean_name} by number of parameters",
        (_RUN, Column("family", "text"), *numbers("parameters (billions)", "S times 100", "95% interval")),
        rows,
        notes=tuple(notes),
        figure=Figure(figure, "S times 100; vertical lines are 95% intervals.") if figure else None,
    )


def _making(group: RunGroup) -> Table:
    rows = []
    for label, run in group.runs.items():
        model, generation = run.manifest["model"], run.manifest["generation"]
        place = model.get("dtype") or model.get("server") or "-"
        sap = len(run.manifest["prompts"]["sap"])
        revision, thinking = str(model.get("revision") or "-")[:12], str(generation.get("thinking_tokens") or 0)
        sampling = f"{generation['temperature']}, {generation['seed']}"
        rows.append(Row((label, str(run.path), revision, str(place), str(sap), thinking, sampling)))
    texts = ("folder", "revision", "dtype or server")
    return Table(
        "The runs",
        (
            _RUN,
            *(Column(title, "text") for title in texts),
            *numbers("SAP principles", "thinking tokens", "temperature, seed"),
        ),
        tuple(rows),
    )


def _signature(group: RunGroup) -> Sequence[str | Code]:
    common = [
        (key, value)
        for key, value in group.first.signature.items()
        if all(scores.signature.get(key) == value for scores in group.scores.values())
    ]
    return "What is the same in all signatures:", Code(signature_line(dict(common)))


def _with_interval(interval: Interval | None) -> Cell:
    if interval is None:
        return "-"
    return (shown(interval.value), ends(interval, ".1f")) if interval.defined else shown(interval.value)


def _value_and_ends(interval: Interval) -> tuple[str, str]:
    return shown(interval.value), ends(interval, ".1f")
