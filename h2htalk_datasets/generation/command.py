"""The options of generation, declared once for ``h2htalk generate``, ``h2htalk run`` and the module itself."""

__all__ = ["ModelOption", "OutOption", "generate_command", "run_app"]

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.failure import watched

Split = Literal["queue", "static"]
ModelOption = Annotated[str, typer.Option("--model", help="A Hub id, a folder, or 'demo'.")]
TasksOption = Annotated[str, typer.Option("--tasks", help="Config names joined by commas, or 'all'.")]
LimitOption = Annotated[int | None, typer.Option("--limit", help="Records per task, drawn evenly; all if not given.")]
OutOption = Annotated[Path, typer.Option("--out", help="The run folder; the same command goes on where it stopped.")]
SapOption = Annotated[str, typer.Option("--sap", help="'all', 'none', or principles of the persona joined by commas.")]
BatchOption = Annotated[int, typer.Option("--batch-size", min=1, help="Prompts a batch; part of what the run is.")]
TemperatureOption = Annotated[float, typer.Option("--temperature", min=0, help="0 is greedy.")]
TopPOption = Annotated[float, typer.Option("--top-p", min=0, max=1, help="Nucleus of sampling.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Of sampling.")]
RevisionOption = Annotated[str | None, typer.Option("--revision", help="Branch, tag or commit of a Hub model.")]
DtypeOption = Annotated[str, typer.Option("--dtype", help="auto, float32, bfloat16 or float16.")]
FoldOption = Annotated[bool, typer.Option("--fold-system", help="For chat templates without a system role.")]
TrustOption = Annotated[bool, typer.Option("--trust-remote-code", help="Run code from the model's repository.")]
SplitOption = Annotated[Split, typer.Option("--split", help="static deals batches out beforehand; to compare.")]


@watched
def generate_command(
    model: ModelOption,
    out: OutOption,
    tasks: TasksOption = "all",
    limit: LimitOption = None,
    sap: SapOption = "all",
    batch_size: BatchOption = 8,
    temperature: TemperatureOption = 0.0,
    top_p: TopPOption = 1.0,
    seed: SeedOption = 0,
    revision: RevisionOption = None,
    dtype: DtypeOption = "auto",
    fold_system: FoldOption = False,
    trust_remote_code: TrustOption = False,
    split: SplitOption = "queue",
) -> None:
    """Answer the records with a model, into a run folder."""
    from h2htalk_datasets.generation.generate import Settings, generate
    from h2htalk_datasets.generation.work_queue import Group
    from h2htalk_datasets.tasks import select_tasks

    select_tasks(tasks)  # a typing mistake should not wait for a model to load
    settings = Settings(
        model=model,
        tasks=tasks,
        limit=limit,
        sap=sap,
        batch_size=batch_size,
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        revision=revision,
        dtype=dtype,
        fold_system=fold_system,
        trust_remote_code=trust_remote_code,
    )
    group = Group()
    file = generate(settings, out, group, split)
    if group.first:
        print(f"predictions: {file}")
    group.close()


def run_app(app: typer.Typer) -> None:
    """Run a command; what a person can mend ends in one line and exit code 2."""
    try:
        app()
    except H2HTalkError as error:
        rank = os.environ.get("RANK")
        print(f"error: {error}" if rank is None else f"error (rank {rank}): {error}", file=sys.stderr)
        raise SystemExit(2) from None
