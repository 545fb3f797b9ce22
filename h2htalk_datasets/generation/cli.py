"""The command ``h2htalk generate``, and what ``h2htalk run`` shares with it."""

__all__ = ["OutOption", "current_name", "generate_command", "run_app", "run_generation"]

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from h2htalk_datasets.errors import H2HTalkError, path_error
from h2htalk_datasets.generation.config import Settings
from h2htalk_datasets.generation.distributed.watchdog import watched
from h2htalk_datasets.options import with_options

if TYPE_CHECKING:
    from h2htalk_datasets.generation.distributed.state import DistributedState

_OLD_NAMES = {
    "in-flight": "max-connections",
    "concurrency": "max-connections",
    "evidence": "explanations",
    "beside": "authors-release",
}

OutOption = Annotated[Path, typer.Option(help="The run folder. The same command continues an interrupted run.")]


def current_name(name: str) -> str:
    """Return the current name of an option; its old name is accepted for one version.

    It is the ``token_normalize_func`` of an app's ``context_settings``.
    """
    return _OLD_NAMES.get(name, name)


@with_options(settings=Settings)
@watched
def generate_command(settings: Settings, out: OutOption) -> None:
    """Generate the answers of a model, into a run folder."""
    from h2htalk_datasets.generation.distributed.state import DistributedState

    run_generation(settings, out, DistributedState())


def run_generation(settings: Settings, out: Path, state: "DistributedState") -> None:
    """Run :func:`~h2htalk_datasets.generation.run.generate` on all ranks, print the file on rank 0, leave the job."""
    from h2htalk_datasets.generation.run import generate

    file = generate(settings, out, state)
    if state.is_main:
        print(f"predictions: {file}")
    state.close()


def run_app(app: typer.Typer) -> None:
    """Run a command; an error that the user can fix ends in one line and exit code 2."""
    try:
        app()
    except H2HTalkError as error:
        _exit(str(error))
    except OSError as error:
        if (reason := path_error(error)) is None:
            raise
        _exit(reason)


def _exit(reason: str) -> NoReturn:
    rank = os.environ.get("RANK")
    label = "error" if rank is None else f"error (rank {rank})"
    print(f"{label}: {reason}\n", end="", file=sys.stderr)  # one write, because other ranks print too
    raise SystemExit(2) from None
