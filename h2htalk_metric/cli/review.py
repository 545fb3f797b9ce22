"""`h2htalk review RUN`, `h2htalk review export RUN`, `h2htalk review import RUN FILE`."""

__all__ = ["review_app"]

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.reports.terminal import console

if TYPE_CHECKING:
    from h2htalk_metric.review.database import Reviews


class _PageFirst(TyperGroup):
    """A group whose first argument may be left out: what is no command of it is the run to show the page of."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args = ["page", *args]
        return super().parse_args(ctx, args)


review_app = typer.Typer(
    cls=_PageFirst,
    no_args_is_help=True,
    help="People mark answers by the judge's rubric: `h2htalk review RUN` opens the page.",
)

RunArgument = Annotated[Path, typer.Argument(help="The run folder.")]


@review_app.command()
def page(
    run_folder: RunArgument,
    controls: Annotated[
        int | None, typer.Option("--controls", min=0, help="Answers above tau; as many as flagged, up to 20.")
    ] = None,
    sample: Annotated[int | None, typer.Option("--sample", min=1, help="Draw N answers whatever a judge says.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Of the draw and the raters' orders; 0.")] = None,
    port: Annotated[int | None, typer.Option("--port", help="The first free one from 7860 on if not given.")] = None,
) -> None:
    """Open the page on localhost (`page` may be left out); the first time, draw the items."""
    from h2htalk_metric.review.page import serve

    reviews = _reviews(run_folder, {"controls": controls, "sample": sample, "seed": seed})
    print(f"{len(reviews.items)} items; marks are kept in {reviews.file}. Ctrl+C ends.")
    serve(reviews, port)


@review_app.command("export")
def export_(
    run_folder: RunArgument,
    blank: Annotated[
        bool, typer.Option("--blank", help="A sheet without marks, for those who mark elsewhere, and the rubrics.")
    ] = False,
) -> None:
    """Write reviews.csv and show how far people, and judge and people, agree."""
    if blank:  # also the first thing that anyone does with this run
        _reviews(run_folder, {"controls": None, "sample": None, "seed": None})
    _draw_probes(run_folder)
    from h2htalk_metric.review.agreement import agreement, agreement_table
    from h2htalk_metric.review.sheet import export_blank, export_reviews

    if blank:
        sheet, rubrics = export_blank(run_folder)
        print(f"sheet:   {sheet}\nrubrics: {rubrics}")
        return
    file = export_reviews(run_folder)
    console().print(agreement_table(agreement(run_folder)))
    print(f"reviews: {file}")


@review_app.command("import")
def import_(
    run_folder: RunArgument, file: Annotated[Path, typer.Argument(help="A filled sheet, or another reviews.csv.")]
) -> None:
    """Take in marks that were given elsewhere; all of the file or, naming each fault, nothing."""
    _draw_probes(run_folder)
    from h2htalk_metric.review.sheet import import_reviews

    added, present = import_reviews(run_folder, file)
    print(f"{added} added, {present} were there already")


def _draw_probes(folder: Path) -> None:
    """Of a run over a probe set every answer is for people, so its sheet needs no draw before it."""
    from h2htalk_datasets.generation.run_folder import RunFolder
    from h2htalk_metric.probes.answers import is_probe_run

    if RunFolder(folder).exists and is_probe_run(RunFolder(folder).manifest()):
        _reviews(folder, {"controls": None, "sample": None, "seed": None})


def _reviews(folder: Path, asked: dict[str, int | None]) -> "Reviews":
    """The reviews of a run; drawn now if there are none, and then as they were drawn."""
    from h2htalk_metric.review.database import Reviews
    from h2htalk_metric.review.drawing import items_of_run

    if not Reviews.exist(folder):
        drawn = asked | {"seed": asked["seed"] or 0}
        items = items_of_run(folder, count=asked["sample"], controls=asked["controls"], seed=drawn["seed"] or 0)
        return Reviews.create(folder, items, drawn)
    reviews = Reviews(folder)
    changed = [
        f"--{name} {reviews.settings.get(name)} -> {value}"
        for name, value in asked.items()
        if value is not None and value != reviews.settings.get(name)
    ]
    if changed:
        raise H2HTalkError(
            f"the items of this review are drawn already ({'; '.join(changed)}); leave the options out, "
            f"or move {reviews.file} away to draw anew"
        )
    return reviews
