"""Commands of a run: run, score, report, plan, verify, merge; and prepare."""

__all__ = ["merge", "plan", "prepare", "report", "run", "score", "verify"]

from pathlib import Path
from typing import Annotated

import typer

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.cli import OutOption, run_generation
from h2htalk_datasets.generation.config import Settings
from h2htalk_datasets.generation.distributed.watchdog import Watchdog
from h2htalk_datasets.options import with_options
from h2htalk_metric.cli.options import EmbedderOption, RunArgument

ReferencesOption = Annotated[
    str, typer.Option("--references", help="'first', or 'all': the best of all references of a record counts.")
]


def prepare() -> None:
    """Make the bare names resolve: load_dataset("h2htalk", ...) and evaluate.load("h2htalk")."""
    from h2htalk_metric.prepare import prepare as fill_caches

    dataset, metric = fill_caches()
    print(f"dataset: {dataset}\nmetric:  {metric}")


@with_options(settings=Settings)
def run(settings: Settings, out: OutOption, embedder: EmbedderOption = "BAAI/bge-m3") -> None:
    """Generate, score and report in one command; in a job of several ranks, rank 0 scores."""
    from h2htalk_datasets.generation.distributed.state import DistributedState
    from h2htalk_metric.metrics.similarity import load_embedder, release_embedders

    if settings.jobs > 1:
        raise H2HTalkError("--jobs is for h2htalk generate; when all jobs have ended: h2htalk score RUN")
    with Watchdog():
        state = DistributedState()
        if state.is_main:
            load_embedder(embedder)  # report an embedder that cannot be loaded before hours of generation
            release_embedders()  # generation needs the memory
        run_generation(settings, out, state)
    if state.is_main:  # without the watchdog, which would miss the other ranks
        score(out, embedder)


def score(
    run_folder: RunArgument, embedder: EmbedderOption = "BAAI/bge-m3", references: ReferencesOption = "first"
) -> None:
    """Score a complete run, print its tables, and write report.md and report.html."""
    from h2htalk_metric.runs.scoring import score_run

    score_run(run_folder, embedder, references)
    report(run_folder)


def report(run_folder: RunArgument) -> None:
    """Print the tables of a scored run, and write report.md and report.html."""
    from h2htalk_metric.reports.report import print_report, write_report
    from h2htalk_metric.runs.run import Run

    scored = Run(run_folder)
    print_report(scored)
    print(f"report: {' and '.join(map(str, write_report(scored)))}")


def plan(
    difference: Annotated[float, typer.Option(min=0.01, help="Smallest difference to show, in points of S times 100.")],
    first: Annotated[Path | None, typer.Argument(help="A scored run whose variance counts. Default: shipped.")] = None,
    second: Annotated[Path | None, typer.Argument(help="Another one over the same records.")] = None,
    tasks: Annotated[str, typer.Option(help="Configs to plan for, separated by commas, or 'all'.")] = "all",
) -> None:
    """Say how many records or relationships a comparison needs to show a difference."""
    from h2htalk_datasets.tasks import select_tasks
    from h2htalk_metric.reports.plan_table import plan_table
    from h2htalk_metric.reports.terminal import print_table
    from h2htalk_metric.runs.compare import difference_sums
    from h2htalk_metric.stats.planning import plan as plan_cells
    from h2htalk_metric.stats.planning import proxy_differences

    if (first is None) != (second is None):
        raise H2HTalkError("a plan needs the differences of two runs; name two run folders, or none")
    sums = difference_sums(first, second) if first and second else proxy_differences()
    chosen = [task.name for task in select_tasks(tasks)]
    missing = [task for task in chosen if task not in sums.tasks]
    if missing and tasks != "all":
        raise H2HTalkError(f"the runs do not hold {', '.join(missing)}; name tasks that both hold")
    print_table(plan_table(plan_cells(sums.only(chosen), difference), difference))


def verify(run_folder: RunArgument) -> None:
    """Recompute a scored run from its predictions, and say whether its result is confirmed."""
    from h2htalk_metric.runs.verify import verify_run

    differences = verify_run(run_folder)
    if differences:
        shown = "\n  ".join(differences[:20])
        raise H2HTalkError(f"the result in {run_folder} is not confirmed, {len(differences)} differences:\n  {shown}")
    print(f"the result in {run_folder} is confirmed: every score was recomputed and agrees")


def merge(
    run_folder: RunArgument,
    others: Annotated[list[Path] | None, typer.Argument(help="Folders of the same run on other nodes' disks.")] = None,
) -> None:
    """Merge the shards of a run into predictions.jsonl, for instance from the disks of several nodes."""
    from h2htalk_datasets.generation.requests import records_of_manifest
    from h2htalk_datasets.generation.run_folder import RunFolder

    folder = RunFolder(run_folder)
    sources = [RunFolder(other) for other in others or []]
    if sources and not folder.exists:
        folder.open(sources[0].manifest())
        folder.unlock()
    manifest = folder.manifest()
    for source in sources:
        print(f"{source.path}: {folder.import_shards(source)} shards copied")
    ids = [record["id"] for record in records_of_manifest(manifest)]
    for note in folder.answers(ids)[1]:
        print(f"left out: {note}")
    missing = folder.merge(ids)
    if missing:
        raise H2HTalkError(
            f"{len(missing)} of {len(ids)} answers are missing, the first: {missing[0]}; run `h2htalk merge "
            f"{run_folder} OTHER ...` with the folders that have them, or the same `h2htalk generate` command again"
        )
    print(f"predictions: {folder.predictions_file}")
