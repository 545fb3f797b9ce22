"""``h2htalk publish``: dataset, metric and leaderboard to the Hub, and the scores of a run to a model's repository."""

__all__ = ["publish_command"]

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from h2htalk_datasets.errors import H2HTalkError, did_you_mean


def publish_command(
    kind: Annotated[str, typer.Argument(help="dataset, metric, leaderboard or results.")],
    repo: Annotated[str, typer.Option("--repo", help="ORG/NAME on the Hub; for results, the model's.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only write the folder.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write the folder NAME there and keep it.")] = None,
    run: Annotated[Path | None, typer.Option("--run", help="For results: the scored run folder.")] = None,
    package: Annotated[
        str | None, typer.Option("--package", help="For a Space: what pip installs h2htalk from. Default: PyPI.")
    ] = None,
    benchmark: Annotated[str | None, typer.Option("--benchmark", help="For results: ORG/NAME of the dataset.")] = None,
) -> None:
    """Publish through huggingface_hub, with its login and endpoint.

    The dataset's eval.yaml makes it a benchmark when h2htalk is on the Hub's list of evaluation frameworks and the
    dataset on its allow-list. Until then the Hub shows neither its leaderboards nor published results
    (https://huggingface.co/docs/hub/eval-results).
    """
    from h2htalk_metric.publish import BENCHMARK, KINDS, NEXT_STEPS, prepare_folder, prepare_results, upload

    if kind not in KINDS:
        raise H2HTalkError(f"cannot publish {kind!r}.{did_you_mean(kind, KINDS)} Choose one of: {', '.join(KINDS)}")
    with TemporaryDirectory() as temporary:
        parent = out or (Path("publish") if dry_run else Path(temporary))
        if kind != "results":
            folder = prepare_folder(kind, repo, parent, package)
        elif run and benchmark:
            folder = prepare_results(run, benchmark, repo, parent)
        else:
            raise H2HTalkError("results need --run, a scored run folder, and --benchmark, the dataset's ORG/NAME")
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            print(f"{file.stat().st_size:>10,}  {file.relative_to(folder)}")
        if dry_run:
            print(f"prepared: {folder}")
        else:
            url, refusal = upload(folder, kind, repo)
            print(f"published: {url}")
            if refusal:
                print(f"without {BENCHMARK}, which the Hub refused: {refusal}")
        print(NEXT_STEPS[kind])
