"""The report of a scored run: the table of the paper, components, counts, and the signature."""

__all__ = ["comparison_table", "components_table", "judged_notes", "judged_table", "markdown", "scores_table"]

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

from rich.markup import escape
from rich.table import Table

from h2htalk_datasets.tasks import DIMENSIONS, TASKS
from h2htalk_metric.judge.judged_run import JudgedRun
from h2htalk_metric.metrics.composite import COMPONENTS
from h2htalk_metric.metrics.signature import signature_line
from h2htalk_metric.reports.markdown import markdown_line, markdown_text
from h2htalk_metric.runs.scoring import RunScores
from h2htalk_metric.stats.aggregate import AVERAGES, OVERALL
from h2htalk_metric.stats.clusters import ClusterSums
from h2htalk_metric.stats.intervals import Interval, row_intervals
from h2htalk_metric.stats.significance import PairedTest


def scores_table(scores: RunScores, judged: JudgedRun | None = None) -> Table:
    """The run in Table 2's figures for a terminal: a line per dimension's configs, its average, then Overall.

    Where judges or people marked the run, the three judged configs show J as well, 0 to 5 and times 20, and of how
    many items it is.
    """
    table = Table(title=f"S of {escape(scores.model)}, times 100", title_justify="left")
    for head in ("dimension", "config", "n", "S", *(("J", "J x 20", "with J") if judged else ())):
        table.add_column(head, justify="left" if head in ("dimension", "config") else "right")
    row, counts = scores.row(), scores.by_task()["n"]
    j, with_j = (judged.by_task()[column] if judged else {} for column in ("j", "with_j"))
    for dimension, average in zip(DIMENSIONS, AVERAGES, strict=True):
        for name in [task.name for task in TASKS.values() if task.dimension == dimension]:
            blended = (_figure(j.get(name)), _figure(j.get(name), 20), str(with_j.get(name, ""))) if judged else ()
            table.add_row(dimension, name, str(counts.get(name, 0)), _figure(row[name]), *blended)
        table.add_row("", f"[bold]{average}[/bold]", "", f"[bold]{_figure(row[average])}[/bold]", end_section=True)
    table.add_row("", f"[bold]{OVERALL}[/bold]", str(len(scores.items)), f"[bold]{_figure(row[OVERALL])}[/bold]")
    return table


def judged_table(judged: JudgedRun) -> Table:
    """The judged configs for a terminal."""
    by = f"judged by {escape(', '.join(judged.panel.judges))}" if judged.panel.judges else "by people, no judge asked"
    table = Table(title=f"J, 0 to 5, {by}", title_justify="left")
    for head in ("config", *_JUDGED):
        table.add_column(head, justify="left" if head == "config" else "right")
    for task, cells in _judged_rows(judged):
        table.add_row(task, *cells)
    return table


def judged_notes(judged: JudgedRun) -> list[str]:
    """What is to be said beside the judged table, a sentence a line; plain text."""
    notes = []
    panel = judged.panel_agreement()
    if panel:
        per_criterion = [value for name, value in panel.items() if name != "score" and value is not None]
        notes.append(f"Agreement of the panel (Krippendorff's alpha, interval): scores {_figure(panel['score'])}")
        if per_criterion:
            notes[0] += f", single criteria {min(per_criterion):.2f} to {max(per_criterion):.2f}"
    reasons = judged.reasons()
    notes += [f"unscored, {count}: {_printable(reason)[:200]}" for reason, count in list(reasons.items())[:5]]
    if len(reasons) > 5:
        notes.append(f"unscored for {len(reasons) - 5} other reasons: see judgements.jsonl")
    return notes


def components_table(scores: RunScores) -> Table:
    """The seven components per config, times 100; beside them answers in form (per cent), empty and cut off ones."""
    table = Table(title="Components, times 100", title_justify="left")
    columns = [*COMPONENTS, "composite"]
    for name in ("config", *columns, "in form", "empty", "cut"):
        table.add_column(name, justify="left" if name == "config" else "right")
    for task, line in scores.by_task().iterrows():
        figures = [_figure(100 * line[column]) for column in columns]
        counts = [f"{100 * line['format_rate']:.0f}", str(int(line["empty"])), str(int(line["truncated"]))]
        table.add_row(str(task), *figures, *counts)
    return table


def markdown(scores: RunScores, judged: JudgedRun | None = None, reviewed: Sequence[str] = ()) -> str:
    """The whole report as Markdown; `reviewed` are the lines about people's reviews, if there are any."""
    row, tasks = scores.row(), scores.by_task()
    manifest = scores.manifest
    heads = [*row]
    intervals = scores.intervals()
    lines = [
        f"# {markdown_text(scores.model)} on H2HTalk",
        "",
        "S is the composite of the paper (Eq. 2), times 100. Configs hold the mean of their items, averages the plain",
        "mean of their configs, Overall the mean of the eleven weighted by Table 1's counts. The records are this",
        "project's own, so these figures can't be compared with the paper's Table 2.",
        "",
        markdown_line(heads),
        markdown_line(["---:"] * len(heads)),
        markdown_line([_figure(row[name]) for name in heads]),
        markdown_line([_interval(intervals, name) for name in heads]),
        "",
        "The second line holds 95% intervals, clustered by relationship.",
        "",
        "## Components",
        "",
        markdown_line(["config", "n", *COMPONENTS, "S", "in form %", "empty", "cut off"]),
        markdown_line(["---", *["---:"] * (len(COMPONENTS) + 5)]),
    ]
    for task, line in tasks.iterrows():
        figures = [_figure(100 * line[column]) for column in [*COMPONENTS, "composite"]]
        counts = [f"{100 * line['format_rate']:.0f}", str(int(line["empty"])), str(int(line["truncated"]))]
        lines.append(markdown_line([str(task), str(int(line["n"])), *figures, *counts]))
    generation, dataset = manifest["generation"], manifest["dataset"]
    lines += [
        "",
        "`in form` is the share of answers that keep their task's form and length; it is no part of S. `empty` answers",
        "score 0 and are counted; `cut off` ones ran into the room their task gives.",
        *_synthesis_lines(scores),
        *(_judged_lines(judged) if judged else []),
        *reviewed,
        "",
        "## How it was made",
        "",
        *_model_lines(manifest["model"]),
        f"- records: {dataset['n']}" + (f", {dataset['limit']} a task at most" if dataset["limit"] else ""),
        f"- persona (SAP): {', '.join(manifest['prompts']['sap']) or 'none'}",
        f"- temperature {generation['temperature']}, seed {generation['seed']}, batch size {generation['batch_size']}",
        f"- signature: `{signature_line(scores.signature).replace('`', '')}`",
        *([f"- signature of J: `{signature_line(judged.signature).replace('`', '')}`"] if judged else []),
        "",
    ]
    return "\n".join(lines)


def _model_lines(model: Mapping[str, Any]) -> list[str]:
    """What the manifest says of the model; of one behind a server only the server knows more than its name."""
    place = model["dtype"] if "dtype" in model else f"behind {markdown_text(model['server'])}"
    lines = [f"- model: {markdown_text(model['name'])}, revision {model['revision']}, {place}"]
    if model.get("adapter"):
        lines.append(f"- LoRA adapter: {markdown_text(model['adapter'])}")
    return lines


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


_JUDGED = ("n", "with J", "S5", "J_judge", "J", "J x 20", "unscored", "flagged", "reviewed", "gap", "spread")


def _judged_rows(judged: JudgedRun) -> list[tuple[str, list[str]]]:
    rows = []
    for task, line in judged.by_task().iterrows():
        means = [_figure(line["s5"]), _figure(line["judge"]), _figure(line["j"]), _figure(line["j"], 20)]
        counts = [str(int(line[name])) for name in ("unscored", "flagged", "reviewed")]
        sizes = [str(int(line[name])) for name in ("n", "with_j")]
        rows.append((str(task), [*sizes, *means, *counts, _figure(line["gap"]), _figure(line["spread"])]))
    return rows


def _judged_lines(judged: JudgedRun) -> list[str]:
    panel = judged.panel
    intervals = row_intervals(ClusterSums.of(judged.values()), bounds=(0, 5)) if judged.values() else {}
    rows = [
        markdown_line([task, *cells[:4], f"{cells[4]} ({_interval(intervals, task, 2)})", *cells[5:]])
        for task, cells in _judged_rows(judged)
    ]
    return [
        "",
        "## Judged",
        "",
        markdown_line(["config", *_JUDGED]),
        markdown_line(["---", *["---:"] * len(_JUDGED)]),
        *rows,
        "",
        f"J = {panel.alpha:g} S5 + {1 - panel.alpha:g} J_judge (Eq. 3), with a 95% interval; S5 = 5 S of these items.",
        *([] if panel.judges else ["No judge was asked, so only answers that people have settled have a J."]),
        "A person's score, where there is one, stands in the place of J_judge. S above is untouched by it. `unscored`",
        "answers have no J_judge and are in no mean of it; `flagged` ones have a J with the judge below",
        f"tau = {panel.tau:g} (Eq. 4). `gap` is the score with the answer shown first less that with the",
        "reference first, `spread` the highest judge's less the lowest's.",
        *(f"\n{markdown_text(note)}" for note in judged_notes(judged)),
    ]


def _printable(text: str) -> str:
    return "".join(mark for mark in text if mark.isprintable())


def _interval(intervals: Mapping[str, Interval], cell: str, digits: int = 1) -> str:
    """The ends, where the cell is there and of more than one item a config."""
    one = intervals.get(cell)
    return f"{one.low:.{digits}f} to {one.high:.{digits}f}" if one and one.defined else "-"


def _figure(value: float | None, times: float = 1) -> str:
    return "-" if value is None or isnan(value) else f"{times * value:.2f}"


_LEVEL = 0.05


def comparison_table(first: RunScores, second: RunScores, tests: dict[str, PairedTest]) -> Table:
    """The comparison for a terminal; a star marks configs that differ at 5% after Holm's correction over the configs.

    Averages and Overall are sums of configs and in no correction, so they have their own p and never a star.
    """
    names = [escape(run.model) for run in (first, second)]
    table = Table(title=f"S times 100: A = {names[0]}, B = {names[1]}", title_justify="left")
    for head in ("cell", "A", "B", "A - B", "95% interval", "p", "p (Holm)", ""):
        table.add_column(head, justify="left" if head in ("cell", "") else "right")
    rows = first.row(), second.row()
    for cell, test in tests.items():
        figures = [f"{row[cell]:.2f}" for row in rows]
        interval = "-" if isnan(test.low) else f"{test.low:+.2f} to {test.high:+.2f}"  # a single item has none
        corrected, star = ("-", "") if cell not in TASKS else (f"{test.p_holm:.4f}", "*" * (test.p_holm < _LEVEL))
        table.add_row(cell, *figures, f"{test.difference:+.2f}", interval, f"{test.p:.4f}", corrected, star)
    return table
