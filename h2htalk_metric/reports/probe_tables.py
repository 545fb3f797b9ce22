"""Tables of InstructionFollowing and of the conversations, from the results that ``h2htalk probe`` writes."""

__all__ = ["conversation", "instructions"]

from collections.abc import Mapping
from typing import Any

from h2htalk_metric.metrics.signature import signature_line
from h2htalk_metric.probes.conversation import CRITERIA
from h2htalk_metric.probes.instructions import EMOTIONS, FAMILIES
from h2htalk_metric.reports import svg
from h2htalk_metric.reports.probe_cells import (
    DETECTABLE_NOTE,
    METHOD,
    NOBODY,
    TEST_COLUMNS,
    Result,
    detectable_cell,
    detectable_row,
    interval_of,
    marked_lines,
    num_presented,
    test_cells,
    value_cell,
)
from h2htalk_metric.reports.table import (
    DETECTABLE,
    DETECTABLE_BY_FLIPS,
    Bullets,
    Code,
    Column,
    Figure,
    Row,
    Section,
    Table,
    numbers,
)
from h2htalk_metric.stats.intervals import Interval

_IMPLICITNESS = (1, 2, 3)


def instructions(result: Result) -> Section:
    """InstructionFollowing: criteria that are met, by family and emotion, and what an unsaid need costs (Fig. 7)."""
    tables: list[Table] = []
    for source, figures in result["figures"].items():
        tables += [_families_table(source, figures), _implicitness_table(source, figures)]
        tables.append(_differences_table(source, result["differences"][source]))
    counts = [f"{result['empty']} empty, {result['cut']} cut off"]
    for source, source_counts in result["counts"].items():
        counts += marked_lines(source, source_counts, result["n"])
    if result["agreement"] is not None:
        counts.append(f"Krippendorff's alpha (interval) between judge and people: {result['agreement']:.2f}")
    return Section(
        "instructions",
        "Implicit needs",
        (
            f"{result['n']} records of InstructionFollowing, whose need is implicit, contradictory or left to the "
            "context. A number is the share of a record's criteria that the answer meets, times 100, with its 95% "
            "interval. Each implicit record has an explicit control: the same need, said openly. Implicitness is 1 "
            "(hinted at clearly) to 3 (hardly hinted at).",
            *([] if result["figures"] else [NOBODY]),
            *(table for table in tables if table.rows),
            Bullets(tuple(counts)),
            f"{METHOD} The differences are paired. Holm's correction is over the emotions and over the levels of "
            f"implicitness. {DETECTABLE_NOTE} {DETECTABLE_BY_FLIPS}",
            Code(signature_line(result["signature"])),
        ),
    )


def conversation(result: Result) -> Section:
    """Conversations with a user whose need changes: how often the companion notices."""
    rows = [
        Row((label, str(one["n"]), value_cell(one, ".2f"), detectable_cell(one, ".2f")))
        for name, label in CRITERIA.items()
        if (one := result["figures"].get(name))
    ]
    blocks: list[Any] = [
        f"{result['conversations']} conversations in which {result['user']} plays a user whose need changes in the "
        f"middle. The companion does not see the user's brief. {result['unfinished']} are unfinished, "
        f"{result['before_the_change']} ended before the change. Shares have 95% intervals; the last three criteria "
        "are measured only where the user showed the change."
    ]
    if result["counts"] is None:
        blocks.append("No judge has marked them yet; the transcripts can be read.")
    else:
        columns = (Column("criterion", "text"), *numbers("n", "share", "detectable"))
        blocks += [Table("Criteria", columns, tuple(rows), notes=(DETECTABLE,))] if rows else []
        blocks.append(Bullets(tuple(marked_lines("judge", result["counts"], num_presented(result["counts"])))))
    return Section("conversation", "Needs that change", (*blocks, Code(signature_line(result["signature"]))))


def _families_table(source: str, figures: Mapping[str, Any]) -> Table:
    rows, measured = [], []
    for family, label in FAMILIES.items():
        if one := figures["family"].get(family):
            cells = [one, *(figures["emotion"].get(f"{family}/{emotion}") for emotion in EMOTIONS)]
            measured.append(cells)
            rows.append(Row((label, str(one["n"]), *(value_cell(cell, ".1f", 100) for cell in cells))))
    rows += detectable_row([[], *zip(*measured, strict=True)], ".1f", 100)
    radar = svg.radar({source: _emotion_axes(figures["emotion"])}, "Radar of families and emotions")
    caption = f"Criteria met by family and emotion, marked by {source}; the band is the 95% interval."
    return Table(
        f"Criteria met, marked by {source}",
        (Column("family", "text"), *numbers("n", "all", *EMOTIONS)),
        tuple(rows),
        figure=Figure(radar, caption) if radar else None,
    )


def _implicitness_table(source: str, figures: Mapping[str, Any]) -> Table:
    rows, measured = [], []
    for family, label in FAMILIES.items():
        values = [figures["implicitness"].get(f"{family}/{level}") for level in _IMPLICITNESS]
        if any(values):
            measured.append(values)
            rows.append(Row((label, *(value_cell(value, ".1f", 100) for value in values))))
    rows += detectable_row(list(zip(*measured, strict=True)), ".1f", 100)
    columns = numbers(*(f"implicitness {level}" for level in _IMPLICITNESS))
    return Table(f"Criteria met by implicitness, marked by {source}", (Column("family", "text"), *columns), tuple(rows))


def _differences_table(source: str, differences: Mapping[str, Any]) -> Table:
    rows = [Row(("all pairs", *test_cells(differences["all"], ".1f", 100)))] if differences["all"] else []
    named = [*differences["emotion"].items()]
    named += [(f"implicitness {level}", test) for level, test in differences["implicitness"].items()]
    rows += [Row((name, *test_cells(test, ".1f", 100))) for name, test in named]
    return Table(f"Explicit minus implicit, marked by {source}", (Column("pairs", "text"), *TEST_COLUMNS), tuple(rows))


def _emotion_axes(figures: Mapping[str, Any]) -> dict[svg.Axis, Interval]:
    return {
        (label, emotion): interval_of(one, 100)
        for family, label in FAMILIES.items()
        for emotion in EMOTIONS
        if (one := figures.get(f"{family}/{emotion}"))
    }
