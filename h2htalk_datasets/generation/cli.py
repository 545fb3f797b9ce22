"""The command ``h2htalk generate``, and what ``h2htalk run`` shares with it."""

__all__ = ["OutOption", "current_name", "generate_command", "run_app", "run_generation", "with_generation_options"]

import os
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_origin, get_type_hints

import typer

from h2htalk_datasets.errors import H2HTalkError, path_error
from h2htalk_datasets.generation.config import Settings
from h2htalk_datasets.generation.distributed.watchdog import watched

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


def with_generation_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command one option per annotated field of :class:`Settings`, in place of its parameter ``settings``."""
    hints = get_type_hints(Settings, include_extras=True)
    options = [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(Settings)
        if get_origin(hints[field.name]) is Annotated
    ]
    own = [p.replace(kind=Parameter.KEYWORD_ONLY) for n, p in signature(command).parameters.items() if n != "settings"]

    @wraps(command)
    def with_settings(**arguments: Any) -> None:
        settings = Settings(**{option.name: arguments.pop(option.name) for option in options})
        command(settings=settings, **arguments)

    required_first = sorted([*options, *own], key=lambda parameter: parameter.default is not Parameter.empty)
    with_settings.__signature__ = Signature(required_first)  # type: ignore[attr-defined]
    return with_settings


@with_generation_options
@watched
def generate_command(settings: Settings, out: OutOption) -> None:
    """Generate the answers of a model, into a run folder."""
    run_generation(settings, out)


def run_generation(settings: Settings, out: Path) -> None:
    """Run :func:`~h2htalk_datasets.generation.run.generate` on all ranks, and print the result on rank 0."""
    from h2htalk_datasets.generation.distributed.state import DistributedState
    from h2htalk_datasets.generation.run import generate
    from h2htalk_datasets.tasks import select_tasks

    select_tasks(settings.tasks)  # report a wrong name before a model is loaded
    state = DistributedState()
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
