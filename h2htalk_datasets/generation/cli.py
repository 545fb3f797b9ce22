"""The options of generation, declared once for ``h2htalk generate``, ``h2htalk run`` and the module itself."""

__all__ = ["OutOption", "TasksOption", "ThinkingOption", "generate_command", "run_app", "with_generation_options"]

import os
import sys
from collections.abc import Callable
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer

from h2htalk_datasets.errors import H2HTalkError, path_fault
from h2htalk_datasets.generation.distributed.watchdog import watched

Split = Literal["queue", "static"]
ModelOption = Annotated[str, typer.Option("--model", help="A Hub id, a folder, 'demo', or its name at --base-url.")]
TasksOption = Annotated[str, typer.Option("--tasks", help="Config names joined by commas, or 'all'.")]
LimitOption = Annotated[int | None, typer.Option("--limit", help="Records per task, drawn evenly; all if not given.")]
OutOption = Annotated[Path, typer.Option("--out", help="The run folder; the same command goes on where it stopped.")]
SapOption = Annotated[str, typer.Option("--sap", help="'all', 'none', or principles of the persona joined by commas.")]
BatchOption = Annotated[
    int | None,
    typer.Option(
        "--batch-size", min=1, help="Prompts a batch, part of what the run is; else what fits. A server gets 1."
    ),
]
TemperatureOption = Annotated[float, typer.Option("--temperature", min=0, help="0 is greedy.")]
TopPOption = Annotated[float, typer.Option("--top-p", min=0, max=1, help="Nucleus of sampling.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Of sampling.")]
ThinkingOption = Annotated[
    int, typer.Option("--thinking-tokens", min=0, help="Room for <think> blocks, which are cut.")
]
FoldOption = Annotated[bool, typer.Option("--fold-system", help="For chat templates without a system role.")]
RevisionOption = Annotated[str | None, typer.Option("--revision", help="Branch, tag or commit of a Hub model.")]
AdapterOption = Annotated[str | None, typer.Option("--adapter", help="A LoRA adapter on top of the model.")]
DtypeOption = Annotated[str, typer.Option("--dtype", help="auto, float32, bfloat16 or float16.")]
AttentionOption = Annotated[str | None, typer.Option("--attention", help="As sdpa, eager or flash_attention_2.")]
DevicesOption = Annotated[int, typer.Option("--devices-per-replica", min=1, help="GPUs that one process uses.")]
TrustOption = Annotated[bool, typer.Option("--trust-remote-code", help="Run code from the model's repository.")]
UrlOption = Annotated[str | None, typer.Option("--base-url", help="Of an OpenAI-compatible server that has the model.")]
FlightOption = Annotated[int, typer.Option("--in-flight", min=1, help="Requests to the server at once.")]
TimeoutOption = Annotated[float, typer.Option("--timeout", min=1, help="Seconds that one try of a request may take.")]
SplitOption = Annotated[Split, typer.Option("--split", help="static deals batches out beforehand; to compare.")]


@watched
def generate_command(
    model: ModelOption,
    out: OutOption,
    tasks: TasksOption = "all",
    limit: LimitOption = None,
    sap: SapOption = "all",
    batch_size: BatchOption = None,
    temperature: TemperatureOption = 0.0,
    top_p: TopPOption = 1.0,
    seed: SeedOption = 0,
    thinking_tokens: ThinkingOption = 0,
    fold_system: FoldOption = False,
    revision: RevisionOption = None,
    adapter: AdapterOption = None,
    dtype: DtypeOption = "auto",
    attention: AttentionOption = None,
    devices_per_replica: DevicesOption = 1,
    trust_remote_code: TrustOption = False,
    base_url: UrlOption = None,
    in_flight: FlightOption = 16,
    timeout: TimeoutOption = 120.0,
    split: SplitOption = "queue",
) -> None:
    """Answer the records with a model, into a run folder."""
    options = {name: value for name, value in locals().items() if name not in ("out", "split")}
    from h2htalk_datasets.generation.distributed.queue import Group
    from h2htalk_datasets.generation.run import Settings, generate
    from h2htalk_datasets.tasks import select_tasks

    select_tasks(tasks)  # a typing mistake should not wait for a model to load
    group = Group()
    file = generate(Settings(**options), out, group, split)
    if group.first:
        print(f"predictions: {file}")
    group.close()


def with_generation_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command all options of generation in place of its ``**options``."""
    own = [p for p in signature(command).parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
    shared = [p for name, p in signature(generate_command).parameters.items() if name not in {p.name for p in own}]
    command.__signature__ = Signature(sorted([*shared, *own], key=lambda p: p.default is not Parameter.empty))  # type: ignore[attr-defined]
    command.__annotations__ = generate_command.__annotations__ | command.__annotations__
    return command


def run_app(app: typer.Typer) -> None:
    """Run a command; what a person can mend ends in one line and exit code 2."""
    try:
        app()
    except H2HTalkError as error:
        _end(str(error))
    except OSError as error:
        if (fault := path_fault(error)) is None:
            raise
        _end(fault)


def _end(reason: str) -> NoReturn:
    rank = os.environ.get("RANK")
    who = "error" if rank is None else f"error (rank {rank})"
    print(f"{who}: {reason}\n", end="", file=sys.stderr)  # one write, since other ranks speak too
    raise SystemExit(2) from None
