"""`h2htalk corpus check` and `h2htalk corpus build`: for those who write the records and the probes."""

__all__ = ["corpus_app"]

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.reports.terminal import console

if TYPE_CHECKING:
    from h2htalk_datasets.corpus.checks import Gate

corpus_app = typer.Typer(help="Check and build the corpus.", no_args_is_help=True)

PartialOption = Annotated[bool, typer.Option("--partial", help="Allow fewer records than Table 1.")]


@corpus_app.command()
def check(
    files: Annotated[list[Path] | None, typer.Argument(help="Relationship files; all if none is named.")] = None,
    partial: PartialOption = False,
    probes: Annotated[bool, typer.Option("--probes", help="Check the two probe sets instead.")] = False,
) -> None:
    """Measure every gate; name file, record and rule of every fault."""
    from h2htalk_datasets.corpus.check import check as measure
    from h2htalk_datasets.corpus.check import source_files
    from h2htalk_datasets.probes.checks import check_probes

    if probes:
        if files:
            raise H2HTalkError("--probes checks the two sets whole; name no files with it")
        gates, over = check_probes(), "the probe sets"
    else:
        records, gates = measure(files or source_files(), partial=partial or bool(files))
        over = f"{len(records)} records"
    _print(gates)
    red = sum(not gate.green for gate in gates)
    if red:
        raise H2HTalkError(f"{red} of {len(gates)} gates are red over {over}")
    print(f"all {len(gates)} gates green over {over}")


@corpus_app.command()
def build(
    partial: PartialOption = False,
    out: Annotated[Path | None, typer.Option("--out", help="The data folder; the package's own if not given.")] = None,
) -> None:
    """Check the corpus and the probe sets and write them as Parquet, the same bytes for the same sources."""
    from h2htalk_datasets.corpus.build import DATA
    from h2htalk_datasets.corpus.build import build as write

    counts, _ = write(out or DATA, partial=partial)
    print(f"{sum(counts.values())} records: " + ", ".join(f"{task} {n}" for task, n in counts.items()))


def _print(gates: "list[Gate]") -> None:
    table = Table()
    for head in ("gate", "figure", "limit", ""):
        table.add_column(head, justify="left" if head in ("gate", "") else "right")
    for gate in gates:
        sign = "≤" if gate.high else "≥"
        table.add_row(
            gate.rule, f"{gate.figure:.4g}", f"{sign} {gate.limit:g}", "ok" if gate.green else "[red]RED[/red]"
        )
    out = console(100)
    out.print(table)
    for gate in gates:
        if not gate.green:
            out.print(f"[red]{gate.rule}[/red]")
            for offender in gate.offenders:
                out.print(f"  {offender}", markup=False, highlight=False)
