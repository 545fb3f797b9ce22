"""`h2htalk sweep`: run, score, judge and compare a list of models."""

__all__ = ["sweep_command"]

import shlex
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from h2htalk_datasets.errors import H2HTalkError, did_you_mean
from h2htalk_datasets.options import with_options
from h2htalk_metric.cli.options import JudgeOptions
from h2htalk_metric.cli.runs import run

if TYPE_CHECKING:
    from h2htalk_metric.sweep.models_file import Entry
    from h2htalk_metric.sweep.sweep import Sweep


@with_options(judging=JudgeOptions)
def sweep_command(
    models: Annotated[Path, typer.Argument(metavar="MODELS.YAML", help="A list of models with their options.")],
    judging: JudgeOptions,
    out: Annotated[Path, typer.Option(help="Folder of the sweep. The same command continues.")] = Path("runs/sweep"),
    only: Annotated[str | None, typer.Option(help="Names of models, separated by commas. Default: all.")] = None,
    submit: Annotated[bool, typer.Option("--submit", help="Submit one Slurm job per model, and end.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the commands.")] = False,
) -> None:
    """Run, score and, with --judge, judge a list of models; put them on a board and into one comparison."""
    from h2htalk_metric.sweep.models_file import read_models
    from h2htalk_metric.sweep.sweep import Sweep

    entries = read_models(models)
    chosen = _chosen(entries, only)
    for entry in entries:
        _check_options(entry)
    judge_arguments = _judge_arguments(judging)
    sweep = Sweep(out, judge_arguments)
    if dry_run:
        for entry in chosen:
            print(shlex.join(["h2htalk", *sweep.generation(entry)]))
        return
    out.mkdir(parents=True, exist_ok=True)
    if submit:
        _submit(sweep, chosen, [str(models), *judge_arguments, "--out", str(out)])
        return
    for number, entry in enumerate(chosen, 1):
        print(f"[{number}/{len(chosen)}] {entry.name}: ", end="", flush=True)
        print("done" if sweep.do(entry) else f"failed: {sweep.result(entry).failure}; log: {out / entry.name}.log")
    if not _finish(sweep, entries, chosen):
        raise typer.Exit(1)


def _finish(sweep: "Sweep", entries: "list[Entry]", chosen: "list[Entry]") -> bool:
    """Write and print the comparison and the summary; say whether all chosen entries are done."""
    from h2htalk_metric.reports.terminal import print_table
    from h2htalk_metric.sweep.summary import summary_table, write_summary
    from h2htalk_metric.sweep.sweep import compare_entries

    results = [sweep.result(entry) for entry in entries]
    write_summary(sweep.folder, results)
    print_table(summary_table(results))
    print(f"board: h2htalk leaderboard --storage {sweep.folder / 'board'} --allow-partial")
    comparison = compare_entries(sweep, entries)
    print(f"comparison: {comparison}" if isinstance(comparison, Path) else f"no comparison: {comparison}")
    names = {entry.name for entry in chosen}
    return all(one.is_scored and not one.failure for one in results if one.name in names)


def _submit(sweep: "Sweep", chosen: "list[Entry]", sweep_arguments: list[str]) -> None:
    from h2htalk_metric.sweep.slurm import submit_job, write_job

    failed = []
    for entry in chosen:
        if sweep.is_scored(entry):
            print(f"{entry.name}: done")
            continue
        try:
            print(f"{entry.name}: {submit_job(sweep, entry, write_job(sweep, entry, sweep_arguments))}")
        except H2HTalkError as error:
            print(f"{entry.name}: not submitted: {error}")
            failed.append(entry.name)
    if failed:
        raise typer.Exit(1)


def _chosen(entries: "list[Entry]", only: str | None) -> "list[Entry]":
    if only is None:
        return entries
    names = [name.strip() for name in only.split(",")]
    known = [entry.name for entry in entries]
    for name in names:
        if name not in known:
            raise H2HTalkError(f"no model is named {name!r}.{did_you_mean(name, known)}")
    return [entry for entry in entries if entry.name in names]


def _check_options(entry: "Entry") -> None:
    """Check the values of all options before the first model runs for hours."""
    app = typer.Typer()
    app.command()(run)
    try:
        typer.main.get_command(app).make_context("run", [*entry.arguments(), "--out", "x"]).close()
    except typer.BadParameter as error:
        raise H2HTalkError(f"{entry.name}: {error.format_message()}") from None


def _judge_arguments(judging: JudgeOptions) -> list[str]:
    from h2htalk_metric.sweep.models_file import as_arguments

    if judging.judge is None:
        return []
    defaults = {field.name: field.default for field in fields(JudgeOptions)}
    return as_arguments({key: value for key, value in asdict(judging).items() if value != defaults[key]})
