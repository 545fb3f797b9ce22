"""``h2htalk export``: the benchmark as a task of another evaluation harness."""

__all__ = ["export_command"]

from pathlib import Path
from typing import Annotated

import typer

from h2htalk_datasets.generation.config import TasksOption, ThinkingOption


def export_command(
    harness: Annotated[str, typer.Argument(help="lm-eval, lighteval or inspect.")],
    out: Annotated[
        Path, typer.Option("--out", help="The folder. An earlier export in it is replaced; other files stay.")
    ],
    tasks: TasksOption = "all",
    embedder: Annotated[str, typer.Option("--embedder", help="For SS, as in h2htalk score.")] = "BAAI/bge-m3",
    thinking_tokens: ThinkingOption = 0,
) -> None:
    """Write records, prompts and the composite as tasks of another harness."""
    from h2htalk_metric.export import export

    folder = export(harness, out, tasks=tasks, embedder=embedder, thinking_tokens=thinking_tokens)
    print(f"{harness} task: {folder}\nhow to run it: {folder / 'README.md'}")
