"""``h2htalk leaderboard`` and ``h2htalk submit``: serve a board, and put runs on it."""

__all__ = ["leaderboard", "submit"]

from pathlib import Path
from typing import Annotated

import typer

from h2htalk_datasets.errors import H2HTalkError

StorageOption = Annotated[Path, typer.Option("--storage", help="Folder of the board's submissions.")]
PartialOption = Annotated[
    bool, typer.Option("--allow-partial", help="Also accept runs over some of the records; they are marked.")
]
RecomputeOption = Annotated[
    bool, typer.Option("--recompute-ss", help="Compute SS again if the embedder is BGE-M3 or the demo's.")
]


def leaderboard(
    port: Annotated[int | None, typer.Option("--port", help="Default: the first free port from 7860.")] = None,
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
    bracket: Annotated[str, typer.Option("--bracket", help="0-1B, 1-8B, 8-31B, 32B+, specialized or proprietary.")],
    name: Annotated[
        str | None, typer.Option("--name", help="Displayed name of the model. Default: that of the run.")
    ] = None,
    storage: StorageOption = Path("board"),
    pack: Annotated[
        Path | None, typer.Option("--pack", help="Write the file to upload to a Space, for example model.json.gz.")
    ] = None,
    allow_partial: PartialOption = False,
    recompute_ss: RecomputeOption = False,
) -> None:
    """Validate a run as the board does, and put it on a board of this machine or pack it for a Space.

    A run in two languages gives two rows, or two files to upload.
    """
    from h2htalk_datasets.languages import LANGUAGES
    from h2htalk_metric.leaderboard import submission as file_format
    from h2htalk_metric.leaderboard.from_run import make_submissions
    from h2htalk_metric.leaderboard.storage import Storage
    from h2htalk_metric.leaderboard.validation import load_board_embedder, validate

    submissions = make_submissions(run_folder, bracket, name)
    for code, submission in submissions.items():
        content = file_format.pack(submission)
        language = f", {LANGUAGES[code].name}" if len(submissions) > 1 else ""
        if pack is not None:
            embedder = load_board_embedder(submission.signature.embedder) if recompute_ss else None
            validate(file_format.unpack(content), allow_partial=allow_partial, embedder=embedder)
            file = pack.with_name(f"{code}-{pack.name}") if len(submissions) > 1 else pack
            file.write_bytes(content)
            print(f"packed: {file} ({len(content) / 1e6:.1f} MB); upload it on the board's page")
            continue
        row = Storage(storage, allow_partial=allow_partial, recompute_ss=recompute_ss).submit(content)
        overall = row.cells["Overall"]
        shown = "not available" if overall is None else f"{overall:.2f}"
        print(f"on the board in {storage}: {row.model}{language}, Overall {shown}, run {row.digest}")
