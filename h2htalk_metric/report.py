"""The report of a scored run: the table of the paper, components, counts, and the signature."""

__all__ = ["components_table", "markdown", "scores_table"]

from collections.abc import Mapping

from rich.table import Table

from h2htalk_datasets.tasks import DIMENSIONS, TASKS
from h2htalk_metric.aggregate import AVERAGES, OVERALL
from h2htalk_metric.composite import COMPONENTS
from h2htalk_metric.run_scores import RunScores
from h2htalk_metric.signature import signature_line
from h2htalk_metric.statistics import Interval, bootstrap


def scores_table(scores: RunScores) -> Table:
    """The run in Table 2's figures for a terminal: a line per dimension's configs, its average, then Overall."""
    table = Table(title=f"S of {scores.manifest['model']['name']}, times 100", title_justify="left")
    table.add_column("dimension")
    table.add_column("config")
    table.add_column("n", justify="right")
    table.add_column("S", justify="right")
    row, counts = scores.row(), scores.by_task()["n"]
    for dimension, average in zip(DIMENSIONS, AVERAGES, strict=True):
        for name in [task.name for task in TASKS.values() if task.dimension == dimension]:
            table.add_row(dimension, name, str(counts.get(name, 0)), _figure(row[name]))
        table.add_row("", f"[bold]{average}[/bold]", "", f"[bold]{_figure(row[average])}[/bold]", end_section=True)
    table.add_row("", f"[bold]{OVERALL}[/bold]", str(len(scores.items)), f"[bold]{_figure(row[OVERALL])}[/bold]")
    return table


def components_table(scores: RunScores) -> Table:
    """The seven components per config, times 100; beside them answers in form (per cent), empty and cut off ones."""
    table = Table(title="Components, times 100", title_justify="left")
    columns = [*COMPONENTS, "composite"]
    for name in ("config", *columns, "in form", "empty", "cut"):
        table.add_column(name, justify="left" if name == "config" else "right")
    for task, line in scores.by_task().iterrows():
        figures = [_figure(100 * line[column]) for column in columns]
        counts = [f"{100 * line['kept']:.0f}", str(int(line["empty"])), str(int(line["truncated"]))]
        table.add_row(str(task), *figures, *counts)
    return table


def markdown(scores: RunScores) -> str:
    """The whole report as Markdown."""
    row, tasks = scores.row(), scores.by_task()
    manifest = scores.manifest
    heads = [*row]
    intervals = bootstrap({task: 100 * values for task, values in scores.composites().items()})
    lines = [
        f"# {manifest['model']['name']} on H2HTalk",
        "",
        "S is the composite of the paper (Eq. 2), times 100. Configs hold the mean of their items, averages the plain",
        "mean of their configs, Overall the mean of the eleven weighted by Table 1's counts. The records are this",
        "project's own, so these figures can't be compared with the paper's Table 2.",
        "",
        _line(heads),
        _line(["---:"] * len(heads)),
        _line([_figure(row[name]) for name in heads]),
        _line([_interval(intervals, name) for name in heads]),
        "",
        "The second line holds 95% bootstrap intervals (10,000 resamples of the items within each config).",
        "",
        "## Components",
        "",
        _line(["config", "n", *COMPONENTS, "S", "in form %", "empty", "cut off"]),
        _line(["---", *["---:"] * (len(COMPONENTS) + 5)]),
    ]
    for task, line in tasks.iterrows():
        figures = [_figure(100 * line[column]) for column in [*COMPONENTS, "composite"]]
        counts = [f"{100 * line['kept']:.0f}", str(int(line["empty"])), str(int(line["truncated"]))]
        lines.append(_line([str(task), str(int(line["n"])), *figures, *counts]))
    generation, dataset = manifest["generation"], manifest["dataset"]
    lines += [
        "",
        "`in form` is the share of answers that keep their task's form and length; it is no part of S. `empty` answers",
        "score 0 and are counted; `cut off` ones ran into the room their task gives.",
        *_synthesis_lines(scores),
        "",
        "## How it was made",
        "",
        f"- model: {manifest['model']['name']}, revision {manifest['model']['revision']}, {manifest['model']['dtype']}",
        f"- records: {dataset['n']}" + (f", {dataset['limit']} a task at most" if dataset["limit"] else ""),
        f"- persona (SAP): {', '.join(manifest['prompts']['sap']) or 'none'}",
        f"- temperature {generation['temperature']}, seed {generation['seed']}, batch size {generation['batch_size']}",
        f"- signature: `{signature_line(scores.signature)}`",
        "",
    ]
    return "\n".join(lines)


def _synthesis_lines(scores: RunScores) -> list[str]:
    found = scores.synthesis()
    if not found:
        return []
    line = f"RecollectionSynthesis without its labels: S of the contents {100 * found['content_composite']:.2f}"
    if found["compared"]:
        line += (
            f"; over the {found['compared']} answers with memories to compare, category agreement "
            f"{100 * found['category_agreement']:.0f}%, importance off by {found['importance_error']:.2f}"
        )
    return ["", f"{line}."]


def _interval(intervals: Mapping[str, Interval], cell: str) -> str:
    return f"{intervals[cell].low:.1f} to {intervals[cell].high:.1f}" if cell in intervals else "-"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
