"""The command `h2htalk`."""

__all__ = ["app", "main"]

import os
from pathlib import Path
from typing import Annotated

import typer

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation import cli as command
from h2htalk_datasets.generation.config import Settings
from h2htalk_datasets.generation.distributed.watchdog import Watchdog
from h2htalk_metric.cli.corpus import corpus_app
from h2htalk_metric.cli.export import export_command
from h2htalk_metric.cli.judge import judge
from h2htalk_metric.cli.leaderboard import leaderboard, submit
from h2htalk_metric.cli.probe import converse, follow, sap
from h2htalk_metric.cli.publish import publish_command
from h2htalk_metric.cli.review import review_app
from h2htalk_metric.reports.terminal import console

app = typer.Typer(
    help="Measure how well a language model works as an emotional companion.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # a traceback must not show keys
    context_settings={"token_normalize_func": command.current_name},
)
app.command("generate")(command.generate_command)
app.add_typer(corpus_app, name="corpus")
app.command("judge")(judge)
app.add_typer(review_app, name="review")
app.command("sap")(sap)
app.command("follow")(follow)
app.command("converse")(converse)
app.command("leaderboard")(leaderboard)
app.command("submit")(submit)
app.command("export")(export_command)
app.command("publish")(publish_command)

RunArgument = Annotated[Path, typer.Argument(help="The run folder.")]
EmbedderOption = Annotated[
    str, typer.Option("--embedder", help="'BAAI/bge-m3', 'demo', or another id or folder; stands in the signature.")
]


@app.command()
def prepare() -> None:
    """Make the bare names resolve: load_dataset("h2htalk", ...) and evaluate.load("h2htalk")."""
    from h2htalk_metric.prepare import prepare as fill_caches

    dataset, metric = fill_caches()
    print(f"dataset: {dataset}\nmetric:  {metric}")


@app.command()
@command.with_generation_options
def run(settings: Settings, out: command.OutOption, embedder: EmbedderOption = "BAAI/bge-m3") -> None:
    """Generate, score and report. Under torchrun or accelerate only rank 0 scores and reports."""
    import torch

    from h2htalk_metric.metrics.similarity import load_embedder, release_embedders

    is_main = os.environ.get("RANK", "0") == "0"
    with Watchdog():  # if the embedder cannot be loaded, the other ranks end too
        if is_main:
            load_embedder(embedder)  # fail now, and not after hours of generation
            if torch.cuda.is_available():
                release_embedders()  # generation needs the memory
        command.run_generation(settings, out)
    if is_main:
        score(out, embedder)


@app.command()
def score(run_folder: RunArgument, embedder: EmbedderOption = "BAAI/bge-m3") -> None:
    """Score a complete run, print its table, and write report.md and report.html."""
    from h2htalk_metric.reports.write import show
    from h2htalk_metric.runs.scoring import score_run

    show(run_folder, score_run(run_folder, embedder))


@app.command()
def report(run_folder: RunArgument) -> None:
    """Print the table of a scored run, and write report.md and report.html again."""
    from h2htalk_metric.reports.write import show
    from h2htalk_metric.runs.scoring import RunScores

    show(run_folder, RunScores.read(run_folder))


@app.command()
def compare(
    first: Annotated[Path, typer.Argument(help="A scored run folder, A.")],
    second: Annotated[Path, typer.Argument(help="Another over the same records, B.")],
    resamples: Annotated[int, typer.Option("--resamples", min=100)] = 10_000,
    seed: Annotated[int, typer.Option("--seed")] = 0,
) -> None:
    """Test two runs against each other: differences, intervals, p-values, what is significant after correction."""
    from h2htalk_metric.reports.run_report import comparison_table
    from h2htalk_metric.runs.compare import compare_runs
    from h2htalk_metric.runs.scoring import read_scores

    tests = compare_runs(first, second, resamples=resamples, seed=seed)
    console().print(comparison_table(read_scores(first), read_scores(second), tests))
    print(f"A is {first}, B is {second}")
    print(f"paired bootstrap and approximate randomization, {resamples} resamples, seed {seed}")
    print("* p (Holm) < 0.05, corrected over the configs; the p of averages and Overall is not corrected")


@app.command()
def verify(run_folder: RunArgument) -> None:
    """Recompute a scored run from its predictions, and say whether its result stands."""
    from h2htalk_metric.runs.verify import verify_run

    faults = verify_run(run_folder)
    if faults:
        shown = "\n  ".join(faults[:20])
        raise H2HTalkError(f"the result in {run_folder} does not stand, {len(faults)} differences:\n  {shown}")
    print(f"the result in {run_folder} stands: every score was recomputed and agrees")


@app.command()
def describe(
    out: Annotated[Path, typer.Option("--out", help="The folder for text tables and figures.")],
    beside: Annotated[Path | None, typer.Option("--beside", help="A folder with the published references.")] = None,
) -> None:
    """Show the corpus in figures: counts, lengths, words, labels, duplicates."""
    from h2htalk_datasets.corpus.statistics import describe as write

    for file in write(out, beside):
        print(file)


@app.command()
def merge(
    run_folder: RunArgument,
    others: Annotated[list[Path] | None, typer.Argument(help="Folders of the same run on other nodes' disks.")] = None,
) -> None:
    """Put the shards of a run together into predictions.jsonl, for instance from several nodes' disks."""
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
    ids = [row["id"] for row in records_of_manifest(manifest)]
    for note in folder.answers(ids)[1]:
        print(f"left out: {note}")
    missing = folder.merge(ids)
    if missing:
        raise H2HTalkError(
            f"{len(missing)} of {len(ids)} answers are missing, the first: {missing[0]}; "
            f"run `h2htalk merge {run_folder} OTHER ...` with the folders that have them, "
            "or the same `h2htalk generate` command again"
        )
    print(f"predictions: {folder.predictions_file}")


def main() -> None:
    """Entry point: what a person can mend ends in one line and exit code 2."""
    command.run_app(app)
