"""``h2htalk export``: the benchmark as a task of another evaluation harness, and results for other tools."""

__all__ = ["export_app"]

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from h2htalk_datasets.generation.config import TasksOption, ThinkingOption
from h2htalk_metric.cli.options import RunArgument
from h2htalk_metric.export.folder import HARNESSES
from h2htalk_metric.export.source import Availability, Deployment, Relationship
from h2htalk_metric.export.write_results import Format

export_app = typer.Typer(help="Run the benchmark in another harness, or take results to other tools.")


def _exporter(harness: str) -> Callable[..., None]:
    def command(
        out: Annotated[
            Path, typer.Option("--out", help="The folder. An earlier export in it is replaced; other files stay.")
        ],
        tasks: TasksOption = "all",
        embedder: Annotated[str, typer.Option("--embedder", help="For SS, as in h2htalk score.")] = "BAAI/bge-m3",
        thinking_tokens: ThinkingOption = 0,
    ) -> None:
        from h2htalk_metric.export import export

        folder = export(harness, out, tasks=tasks, embedder=embedder, thinking_tokens=thinking_tokens)
        print(f"{harness} task: {folder}\nhow to run it: {folder / 'README.md'}")

    return command


for _harness in HARNESSES:
    _help = f"Write records, prompts and the composite as tasks of {_harness}."
    export_app.command(_harness, help=_help)(_exporter(_harness))


@export_app.command("results")
def results_command(
    run: RunArgument,
    format: Annotated[Format, typer.Option(help="Who reads the results.")],
    out: Annotated[Path, typer.Option(help="The folder, or FILE.eval. An earlier export of this run is replaced.")],
    organization: Annotated[str, typer.Option(help="Who evaluated the model.")] = "unknown",
    relationship: Annotated[
        Relationship, typer.Option(help="Of this organization to the model's developer.")
    ] = "third_party",
    model_id: Annotated[
        str | None, typer.Option(help="DEVELOPER/MODEL. Default: the run's model, if it is a Hub id.")
    ] = None,
    developer: Annotated[
        str | None, typer.Option(help="Who provides the model. Default: the first part of its id.")
    ] = None,
    deployment: Annotated[
        Deployment | None, typer.Option(help="Who controls the inference. Default: from the engine.")
    ] = None,
    availability: Annotated[Availability, typer.Option(help="Of the weights.")] = "unknown",
    benchmark: Annotated[
        str | None, typer.Option(help="ORG/NAME of the dataset on the Hub. Default: described without one.")
    ] = None,
) -> None:
    """Write the scores and answers of a run, with the scores of judges and people."""
    from h2htalk_metric.export import Source, export_results

    source = Source(organization, relationship, model_id, developer, deployment, availability, benchmark)
    for file in export_results(run, format, out, source):
        print(f"results: {file}")
