"""The section of CompanionMemory: accuracy by family and distance, per memory strategy and length."""

__all__ = ["memory"]

from collections.abc import Mapping, Sequence
from typing import Any

from h2htalk_datasets.memory.schema import FAMILIES
from h2htalk_datasets.memory.verdicts import VERDICTS
from h2htalk_metric.metrics.signature import signature_line
from h2htalk_metric.reports import svg
from h2htalk_metric.reports.probe_cells import (
    DETECTABLE_NOTE,
    TEST_COLUMNS,
    Result,
    detectable_row,
    interval_of,
    test_cells,
    value_cell,
)
from h2htalk_metric.reports.table import (
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

_STRATEGY = Column("history, strategy", "text")


def memory(result: Result) -> Section:
    """Accuracy of each strategy by family and distance, what was invented, and the tests between strategies."""
    strategies = result["strategies"]
    unscored = [
        f"{name}: {sum(of_strategy['unscored'].values())} unscored, for example {next(iter(of_strategy['unscored']))}"
        for name, of_strategy in strategies.items()
        if of_strategy["unscored"]
    ]
    tables = [
        _accuracy(strategies),
        _verdicts(strategies),
        _distances(strategies, "by_tokens", "tokens"),
        _distances(strategies, "by_days", "days"),
        _tests(result["tests"]),
        _judged(strategies),
    ]
    return Section(
        "memory",
        "Memory over weeks",
        (
            "Questions of CompanionMemory about conversations over weeks. The patterns of each question decide the "
            "verdict, without a judge. A number is the share of right answers in per cent, with its 95% interval "
            "clustered by relationship. Outdated is the share of questions on a changed value that get the old one, "
            "invented the share of questions on what was never said that get a value.",
            *(table for table in tables if table.rows),
            *([Bullets(tuple(unscored))] if unscored else []),
            "Intervals are 95% from Student's t with cluster-robust standard errors; p-values are from random sign "
            f"flips of whole relationships. * p (Holm) < 0.05. {DETECTABLE_NOTE} {DETECTABLE_BY_FLIPS}",
            Code(signature_line(result["signature"])),
        ),
    )


def _accuracy(strategies: Mapping[str, Any]) -> Table:
    rows, measured = [], []
    for name, one in strategies.items():
        shares = [
            *(one["accuracy"][key] for key in ("all", *FAMILIES)),
            *(one[key] for key in ("outdated", "invented")),
        ]
        measured.append(shares)
        cells = (value_cell(share, ".0f", 100) for share in shares)
        rows.append(Row((name, str(one["n"]), *cells, f"{one['tokens_per_answer']:,.0f}")))
    rows += detectable_row([[], *zip(*measured, strict=True), []], ".0f", 100)
    columns = numbers("n", "all", *FAMILIES, "outdated", "invented", "tokens per answer")
    return Table("Right answers by family, in per cent", (_STRATEGY, *columns), tuple(rows))


def _verdicts(strategies: Mapping[str, Any]) -> Table:
    rows = [
        Row((name, *(value_cell(one["verdicts"][verdict], ".0f", 100) for verdict in VERDICTS)))
        for name, one in strategies.items()
    ]
    by_verdict = [[one["verdicts"][verdict] for one in strategies.values()] for verdict in VERDICTS]
    rows += detectable_row(by_verdict, ".0f", 100)
    return Table("Verdicts, in per cent", (_STRATEGY, *numbers(*VERDICTS)), tuple(rows))


def _distances(strategies: Mapping[str, Any], key: str, unit: str) -> Table:
    """Accuracy by distance; the figure shows the same as lines."""
    groups = {_label(group): None for one in strategies.values() for group in one[key]}
    # In the order of their beginnings, because a short history lacks the far groups.
    labels = sorted(groups, key=lambda label: float(label.split(" ")[0].replace(",", "")))
    by_label = {name: {_label(group): group for group in one[key]} for name, one in strategies.items()}
    rows = [
        Row((name, *(value_cell(of_name.get(label), ".0f", 100) for label in labels)))
        for name, of_name in by_label.items()
    ]
    rows += detectable_row([[of_name.get(label) for of_name in by_label.values()] for label in labels], ".0f", 100)
    lines = {
        name: {label: interval_of(of_name[label], 100) for label in labels if label in of_name}
        for name, of_name in by_label.items()
    }
    title = f"Right answers by {unit} from the evidence to the question, in per cent"
    plot = svg.line_plot(lines, title, 100, unit)
    return Table(title, (_STRATEGY, *numbers(*labels)), tuple(rows), figure=Figure(plot, f"{title}.") if plot else None)


def _label(group: Mapping[str, Any]) -> str:
    return f"{group['from']:,} to {group['to']:,}" if group["to"] is not None else f"{group['from']:,} and more"


def _tests(tests: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        Row((f"{test['first']} minus {test['second'].split(' ', 1)[1]}", *test_cells(test, ".1f", 100)))
        for test in tests
    ]
    columns = (Column("strategies", "text"), *TEST_COLUMNS)
    return Table("Differences between strategies of one length, in percentage points", columns, tuple(rows))


def _judged(strategies: Mapping[str, Any]) -> Table:
    """What a judge says, apart from the verdicts; results of earlier versions have no judge."""
    rows = [
        Row(
            (
                name,
                ", ".join(judge["by"]),
                str(judge["right"]["n"] if judge["right"] else 0),
                str(judge["unscored"]),
                value_cell(one["accuracy"]["all"], ".0f", 100),
                value_cell(judge["right"], ".0f", 100),
                value_cell(judge["agreement"], ".0f", 100),
            )
        )
        for name, one in strategies.items()
        if (judge := one.get("judge"))
    ]
    columns = (
        Column("judge", "text"),
        *numbers("judged", "unscored", "right by the verdicts", "right by the judge", "both agree"),
    )
    return Table("By a judge, apart from the verdicts, in per cent", (_STRATEGY, *columns), tuple(rows))
