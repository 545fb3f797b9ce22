"""`h2htalk compare`: test two runs, or rank many on one page."""

__all__ = ["compare"]

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from h2htalk_datasets.errors import H2HTalkError

if TYPE_CHECKING:
    from h2htalk_metric.runs.run import Run


def compare(
    run_folders: Annotated[
        list[Path], typer.Argument(metavar="RUN RUN [RUN ...]", help="Scored run folders over the same records.")
    ],
    out: Annotated[Path | None, typer.Option("--out", help="Write the comparison as one HTML page.")] = None,
    models: Annotated[
        Path | None, typer.Option("--models", help="YAML file with the families and sizes of the models.")
    ] = None,
    resamples: Annotated[int, typer.Option(min=100, help="Random sign flips of the tests.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of the sign flips.")] = 0,
) -> None:
    """Test two runs against each other, or rank up to 50: differences, intervals, p-values, and what is significant."""
    from h2htalk_datasets.languages import LANGUAGES
    from h2htalk_metric.reports.comparison_page import write_comparison
    from h2htalk_metric.reports.run_group_tables import ranking
    from h2htalk_metric.reports.terminal import print_table
    from h2htalk_metric.runs.compare import shared_languages
    from h2htalk_metric.runs.groups import run_groups
    from h2htalk_metric.runs.run import Run
    from h2htalk_metric.sweep.models_file import read_models, sizes_of

    sizes = sizes_of(read_models(models) if models else [])
    runs = [Run(folder) for folder in run_folders]
    if len(runs) == 2:
        pairs = shared_languages(*runs)
        for code, (one, other) in pairs.items():
            if len(pairs) > 1:
                print(f"\n{LANGUAGES[code].name} ({LANGUAGES[code].native_name})")
            _compare_two(one, other, resamples=resamples, seed=seed)
        if out is None:
            return
    groups = run_groups(runs, resamples=resamples, seed=seed)
    for group in groups:
        if group.reason:
            print(f"apart: {', '.join(group.runs)}: {group.reason}")
        if len(group.runs) > 1 and len(runs) > 2:
            print_table(ranking(group))
    if len(runs) > 2:
        print(f"{resamples} sign flips, or 100 per pair of runs if that is more; seed {seed}")
    if out is not None:
        write_comparison(groups, out, sizes)
        print(f"comparison: {out}")


def _compare_two(one: "Run", other: "Run", *, resamples: int, seed: int) -> None:
    from h2htalk_metric.judge.judged_slices import compare_judged
    from h2htalk_metric.reports.comparison import comparison, judged_comparison, slice_comparison
    from h2htalk_metric.reports.terminal import print_table
    from h2htalk_metric.runs.compare import compare_need, compare_runs, compare_slices

    print_table(comparison(one, other, compare_runs(one, other, resamples=resamples, seed=seed)))
    for table in slice_comparison(compare_slices(one, other, resamples=resamples, seed=seed), compare_need(one, other)):
        print_table(table)
    try:
        judged_tests = compare_judged(one, other, resamples=resamples, seed=seed)
    except H2HTalkError as error:  # S is compared all the same
        judged_tests = {}
        print(f"J is not compared: {error}")
    for table in judged_comparison(judged_tests):
        print_table(table)
    print(f"{resamples} sign flips, seed {seed}")
