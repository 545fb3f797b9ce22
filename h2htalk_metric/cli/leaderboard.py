"""`h2htalk leaderboard` and `h2htalk submit`: serve a board, and put runs on it."""

__all__ = ["leaderboard", "submit"]

from pathlib import Path
from typing import Annotated

import typer

from h2htalk_datasets.errors import H2HTalkError

StorageOption = Annotated[Path, typer.Option("--storage", help="The folder that keeps the board's submissions.")]
PartialOption = Annotated[bool, typer.Option("--allow-partial", help="Take runs with a part of the records, marked.")]
RecomputeOption = Annotated[
    bool, typer.Option("--recompute-ss", help="Embed answers anew where the embedder is BGE-M3 or the demo's.")
]


def leaderboard(
    port: Annotated[int | None, typer.Option("--port", help="The first free one from 7860 if not given.")] = None,
    storage: StorageOption = Path("board"),
    allow_partial: PartialOption = False,
    recompute_ss: RecomputeOption = False,
) -> None:
    """Serve the leaderboard on this machine."""
    try:
        from h2htalk_metric.leaderboard.page import build_app, launch
    except ModuleNotFoundError as error:
        raise H2HTalkError(f"{error.name} is missing; run: pip install 'h2htalk[leaderboard]'") from None
    from h2htalk_metric.leaderboard.storage import Storage

    launch(build_app(Storage(storage, allow_partial=allow_partial, recompute_ss=recompute_ss)), port)


def submit(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A scored run folder.")],
    bracket: Annotated[str, typer.Option("--bracket", help="1-8B, 8-31B, 32B+, specialized or proprietary.")],
    name: Annotated[
        str | None, typer.Option("--name", help="The model's name on the board; the run's if not given.")
    ] = None,
    storage: StorageOption = Path("board"),
    pack: Annotated[
        Path | None, typer.Option("--pack", help="Write the file to upload to a Space instead, e.g. model.json.gz.")
    ] = None,
    allow_partial: PartialOption = False,
    recompute_ss: RecomputeOption = False,
) -> None:
    """Check a run as the board does, and put it on a board of this machine, or pack it for a Space."""
    from h2htalk_metric.leaderboard import submission
    from h2htalk_metric.leaderboard.admission import admit
    from h2htalk_metric.leaderboard.storage import Storage

    packed = submission.read_run(run_folder, bracket, name)
    content = submission.pack(packed)
    if pack is not None:
        admit(submission.unpack(content), allow_partial=allow_partial, recompute_ss=recompute_ss)
        pack.write_bytes(content)
        print(f"packed: {pack} ({len(content) / 1e6:.1f} MB); upload it on the board's page")
        return
    row = Storage(storage, allow_partial=allow_partial, recompute_ss=recompute_ss).submit(content)
    print(f"on the board in {storage}: {row.model}, Overall {_figure(row.cells['Overall'])}, run {row.digest}")


def _figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"
