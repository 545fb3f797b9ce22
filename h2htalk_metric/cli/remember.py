"""`h2htalk remember`: a model answers questions about conversations over weeks, with a memory strategy."""

__all__ = ["remember_command"]

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.cli import OutOption
from h2htalk_datasets.generation.config import Settings
from h2htalk_datasets.generation.distributed.watchdog import Watchdog
from h2htalk_datasets.options import with_options
from h2htalk_metric.cli.probe_results import write_and_print
from h2htalk_metric.memory.options import Remembering


@with_options(settings=Settings, remembering=Remembering)
def remember_command(settings: Settings, remembering: Remembering, out: OutOption) -> None:
    """Answer CompanionMemory with a memory strategy; all strategies in one run folder are compared."""
    from h2htalk_datasets.generation.distributed.state import DistributedState
    from h2htalk_metric.memory.remember import remember
    from h2htalk_metric.memory.results import measure_memory
    from h2htalk_metric.runs.run import Run

    if settings.tasks != "all" or settings.limit is not None:
        raise H2HTalkError("remember has questions of its own; use --arcs instead of --tasks and --limit")
    with Watchdog():
        state = DistributedState()
        remember(settings, remembering, out, state)
    if state.is_main:
        write_and_print(Run(out), "memory", measure_memory(out))
