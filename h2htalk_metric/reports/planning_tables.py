"""The section of CompanionPlanning: valid plans by difficulty, violations by kind, changes without need."""

__all__ = ["planning"]

from collections.abc import Mapping, Sequence
from typing import Any

from h2htalk_datasets.planning.checker import BASE_RULES
from h2htalk_datasets.planning.constraints import KINDS
from h2htalk_metric.metrics.signature import signature_line
from h2htalk_metric.probes.planning import LEVEL_LABELS, MEASURES
from h2htalk_metric.reports.probe_cells import DETECTABLE_NOTE, Result, detectable_row, value_cell
from h2htalk_metric.reports.table import Bullets, Cell, Code, Column, Row, Section, Table, numbers

_TURNS = {"1": "plan", "2": "replan", "both": "both"}
_FORMS = {True: (".1f", 100), False: (".2f", 1)}  # of shares and of numbers
_METHOD = (
    "Intervals are 95% from Student's t with cluster-robust standard errors; clusters are scenarios. If all clusters "
    "have the same rate of 0 or 1, the interval is Clopper and Pearson's."
)


def planning(result: Result) -> Section:
    """Plans and replans by difficulty, and the share of violations by kind."""
    shown = result["shown"]
    counts = [
        f"{result['empty']} empty, {result['cut']} cut off",
        f"{result['unknown']} lines with an unknown label and {result['unreadable']} without a readable time, ignored",
        f"second turns that began with the model's own plan: {shown['own']}; with the shipped plan, because nothing of "
        f"the first answer could be read: {shown['shipped']}",
    ]
    tables = [_levels_table(result["figures"]), *(_kinds_table(turn, result["kinds"][turn]) for turn in ("1", "2"))]
    return Section(
        "planning",
        "Plans over days",
        (
            f"{result['scenarios']} scenarios of CompanionPlanning: a plan of three to seven days, and a replan after "
            "a change. A program checks them. A plan is valid if it has every activity once and violates nothing. "
            "Numbers are per cent with their 95% intervals; unnecessary changes are per replan. A change is "
            "unnecessary if the entry could have stayed where it was without one more violation. Difficulty is the "
            "number of constraints.",
            *(table for table in tables if table.rows),
            Bullets(tuple(counts)),
            f"{_METHOD} {DETECTABLE_NOTE}",
            Code(signature_line(result["signature"])),
        ),
    )


def _levels_table(figures: Mapping[str, Any]) -> Table:
    keys = [(turn, level) for turn in _TURNS for level in LEVEL_LABELS if level in figures[turn]]
    rows = []
    for turn, level in keys:
        of_level = figures[turn][level]
        n = next(iter(of_level.values()))["n"]
        cells = [_cell(of_level.get(name), name) for name in MEASURES]
        rows.append(Row((_TURNS[turn], LEVEL_LABELS[level], str(n), *cells)))
    by_measure = [
        [figures[turn][level].get(name) for turn, level in keys] if measure.rate else []
        for name, measure in MEASURES.items()
    ]
    rows += detectable_row([[], [], *by_measure], ".1f", 100)
    labels = ("n", *(measure.label for measure in MEASURES.values()))
    columns = (Column("turn", "text"), Column("difficulty", "text"), *numbers(*labels))
    return Table("Plans by difficulty", columns, tuple(rows))


def _cell(one: Mapping[str, Any] | None, name: str) -> Cell:
    form, factor = _FORMS[MEASURES[name].rate]
    return value_cell(one, form, factor)


def _kinds_table(turn: str, by_level: Mapping[str, Any]) -> Table:
    labels = BASE_RULES | KINDS
    kinds = [kind for kind in labels if kind in by_level["all"]]
    levels = [level for level in LEVEL_LABELS if level in by_level]
    rows = [
        Row((labels[kind], str(by_level["all"][kind]["n"]), *_kind_cells(kind, by_level, levels))) for kind in kinds
    ]
    rows += detectable_row([[], *([by_level[level].get(kind) for kind in kinds] for level in levels)], ".1f", 100)
    columns = (Column("kind", "text"), *numbers("n", *(LEVEL_LABELS[level] for level in levels)))
    return Table(f"Violations by kind in the {_TURNS[turn]}, in per cent", columns, tuple(rows))


def _kind_cells(kind: str, by_level: Mapping[str, Any], levels: Sequence[str]) -> list[Cell]:
    return [value_cell(by_level[level].get(kind), ".1f", 100) for level in levels]
