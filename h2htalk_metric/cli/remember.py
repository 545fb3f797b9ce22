"""`h2htalk remember`: a model answers questions about conversations over weeks, with a memory strategy."""

__all__ = ["remember_command"]

from dataclasses import dataclass
from typing import Annotated

from typer import Option

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.cli import OutOption
from h2htalk_datasets.generation.config import Settings
from h2htalk_datasets.generation.distributed.watchdog import Watchdog
from h2htalk_datasets.options import with_options


@dataclass(frozen=True)
class MemoryOptions:
    """The memory strategy."""

    memory: Annotated[
        str,
        Option(help="none, window, full, notes, retrieval, MODULE:CLASS, FILE.py:CLASS, or http://... of a server."),
    ]
    length: Annotated[str, Option(help="Tokens of each history: arc (as written, about 4k), 2k, 8k or 32k.")] = "arc"
    arcs: Annotated[int | None, Option(min=1, help="Relationships, from the first. Default: all 50.")] = None
    window_tokens: Annotated[int, Option(min=1, help="Tokens that 'window' shows.")] = 1000
    top_k: Annotated[int, Option(min=1, help="Pairs of turns that 'retrieval' shows.")] = 8
    embedder: Annotated[str, Option(help="Embedder of 'retrieval', as for h2htalk score.")] = "BAAI/bge-m3"


@with_options(settings=Settings, options=MemoryOptions)
def remember_command(settings: Settings, options: MemoryOptions, out: OutOption) -> None:
    """Answer CompanionMemory with a memory strategy; all strategies in one run folder are compared."""
    from h2htalk_datasets.generation.distributed.state import DistributedState
    from h2htalk_metric.memory.remember import Remembering, remember
    from h2htalk_metric.memory.results import measure_memory
    from h2htalk_metric.probes.results import write_result
    from h2htalk_metric.reports.report import probe_section, write_probe_report
    from h2htalk_metric.reports.terminal import print_sections
    from h2htalk_metric.runs.run import Run

    if settings.tasks != "all" or settings.limit is not None:
        raise H2HTalkError("remember has questions of its own; use --arcs instead of --tasks and --limit")
    with Watchdog():
        state = DistributedState()
        remember(settings, Remembering(**vars(options)), out, state)
    if not state.is_main:
        return
    run, result = Run(out), measure_memory(out)
    files = [write_result(run, "memory", result), *write_probe_report(run, "memory", result)]
    print_sections([probe_section("memory", result)], width=160)
    print(f"written: {', '.join(map(str, files))}")
