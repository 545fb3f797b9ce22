"""`h2htalk review RUN`, `h2htalk review export RUN`, `h2htalk review import RUN FILE`."""

__all__ = ["review_app"]

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.cli.options import RunArgument

if TYPE_CHECKING:
    from h2htalk_metric.review import Reviews


class _PageByDefault(TyperGroup):
    """A group whose command `page` may be omitted: a first argument that is not a command is the run folder."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args = ["page", *args]
        return super().parse_args(ctx, args)


review_app = typer.Typer(
    cls=_PageByDefault,
    no_args_is_help=True,
    help="Let people mark answers by the judge's rubric: `h2htalk review RUN` opens the page.",
)


@review_app.command()
def page(
    run_folder: RunArgument,
    most: Annotated[
        int | None,
        typer.Option(min=1, help="At most N answers, by config and J, controls included. Default: 100."),
    ] = None,
    controls: Annotated[
        int | None,
        typer.Option(min=0, help="Answers that are not flagged. Default: by their share, at least 20, at most half."),
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Sample N answers at random; the run needs no judge.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the sample and of the raters' orders. Default: 0.")] = None,
    port: Annotated[int | None, typer.Option(help="Port of the page. Default: the first free one from 7860.")] = None,
) -> None:
    """Open the page on localhost (the word `page` may be omitted); the first call selects the answers."""
    from h2htalk_metric.review.rating_page import serve

    _print_flags(run_folder)
    reviews = _reviews(run_folder, {"sample": sample, "most": most, "controls": controls, "seed": seed})
    print(f"{len(reviews.items)} items; marks are saved in {reviews.file}. Press Ctrl+C to stop.")
    serve(reviews, port)


@review_app.command("export")
def export_(
    run_folder: RunArgument,
    blank: Annotated[
        bool,
        typer.Option("--blank", help="Write a sheet without marks, for raters who mark elsewhere, and the rubrics."),
    ] = False,
) -> None:
    """Write reviews.csv and print how far people agree with each other and with the judge."""
    from h2htalk_metric.review.sheet import export_blank, export_reviews

    if blank:
        _reviews(run_folder, {})  # may be the first review command of this run
        sheet, rubrics = export_blank(run_folder)
        print(f"sheet:   {sheet}\nrubrics: {rubrics}")
        return
    from h2htalk_metric.reports.judged_tables import reviewed
    from h2htalk_metric.reports.terminal import print_sections
    from h2htalk_metric.review import agreement
    from h2htalk_metric.review.estimate import review_estimate
    from h2htalk_metric.runs.run import Run

    _select_probe_items(run_folder)
    file = export_reviews(run_folder)
    run = Run(run_folder)
    print_sections([reviewed(agreement(run), None if run.is_probe_run else review_estimate(run))])
    print(f"reviews: {file}")


@review_app.command("import")
def import_(
    run_folder: RunArgument, file: Annotated[Path, typer.Argument(help="A filled sheet, or another reviews.csv.")]
) -> None:
    """Import marks that were made elsewhere; if the file has errors, nothing is imported and each error is named."""
    from h2htalk_metric.review.sheet import import_reviews

    _select_probe_items(run_folder)
    added, present = import_reviews(run_folder, file)
    print(f"{added} added, {present} were there already")


def _print_flags(run_folder: Path) -> None:
    """Say which share of a judged run is flagged, and why, before anyone reads the answers."""
    from h2htalk_metric.judge.flags import flag_summary
    from h2htalk_metric.judge.panel import Panel
    from h2htalk_metric.judge.panel_scores import panel_scores
    from h2htalk_metric.runs.run import Run

    run = Run(run_folder)
    panel = Panel.read(run.path)
    if panel and (run.path / "scores.parquet").exists() and not run.is_probe_run:
        for part in run.by_language.values():
            print(flag_summary(panel_scores(part), panel))


def _select_probe_items(run_folder: Path) -> None:
    """Select all answers of a probe run, so that its sheet needs no other command before it."""
    from h2htalk_metric.runs.run import Run

    run = Run(run_folder)
    if run.folder.exists and run.is_probe_run:
        _reviews(run_folder, {})


def _reviews(run_folder: Path, options: dict[str, int | None]) -> "Reviews":
    """The reviews of a run; if there are none, select the answers. Options of an existing review cannot change."""
    from h2htalk_metric.review import Reviews
    from h2htalk_metric.review.sampling import start_review

    if not Reviews.exist(run_folder):
        chosen = {name: options.get(name) for name in ("sample", "most", "controls")}
        return start_review(run_folder, **chosen, seed=options.get("seed") or 0)
    reviews = Reviews(run_folder)
    changed = [
        f"--{name} {reviews.settings.get(name)} -> {value}"
        for name, value in options.items()
        if value is not None and value != reviews.settings.get(name)
    ]
    if changed:
        raise H2HTalkError(
            f"the answers of this review are already selected ({'; '.join(changed)}); omit these options, or move "
            f"{reviews.file} away to select again"
        )
    return reviews
