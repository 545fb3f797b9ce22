"""The way to the Hub, through huggingface_hub: its endpoint, its login."""

__all__ = ["upload"]

from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError, one_line
from h2htalk_metric.publish.repositories import BENCHMARK, KINDS


def upload(folder: Path, kind: str, repo: str) -> tuple[str, str]:
    """Make the repository if it isn't there, and put the folder into it in one commit.

    Nothing that stands in the repository is removed. Results go to a model's repository as a pull request. A dataset's
    ``eval.yaml`` follows in a second commit: the Hub checks it, and if refused it must not keep the records back.

    Args:
        folder: as it was prepared.
        kind: what it holds.
        repo: ``ORG/NAME``.

    Returns:
        The address of the commit, or of the pull request; and why ``eval.yaml`` was refused, empty if it wasn't.

    Raises:
        H2HTalkError: there is no login, or the Hub refuses or can't be reached.

    """
    from huggingface_hub import HfApi, get_token
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    if get_token() is None:
        raise H2HTalkError("no login for the Hub; run `hf auth login`, or set HF_TOKEN")
    # Whichever client huggingface_hub is built on (requests, httpx, httpx2), its errors have this base.
    client_error: Any = HfHubHTTPError.__bases__[0]
    api, repo_type, results = HfApi(), KINDS[kind], kind == "results"
    try:
        if not results:
            sdk = "gradio" if repo_type == "space" else None
            api.create_repo(repo, repo_type=repo_type, space_sdk=sdk, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repo,
            repo_type=repo_type,
            folder_path=folder,
            commit_message=f"H2HTalk {kind}",
            create_pr=results,
            ignore_patterns=BENCHMARK,
        )
        refused = _benchmark_refused(api, folder, repo) if (folder / BENCHMARK).exists() else ""
    except OfflineModeIsEnabled:
        raise H2HTalkError("HF_HUB_OFFLINE is set, so nothing can be published; unset it, or use --dry-run") from None
    except (client_error, OSError, ValueError) as error:
        raise H2HTalkError(f"can't publish {repo} at {api.endpoint}: {one_line(error)}") from None
    return commit.pr_url or commit.commit_url, refused


def _benchmark_refused(api: Any, folder: Path, repo: str) -> str:
    """Why the Hub refuses a dataset's ``eval.yaml``; empty if it took it."""
    from huggingface_hub.errors import HfHubHTTPError

    try:
        api.upload_file(
            path_or_fileobj=folder / BENCHMARK,
            path_in_repo=BENCHMARK,
            repo_id=repo,
            repo_type="dataset",
            commit_message="H2HTalk as a benchmark",
        )
    except HfHubHTTPError as error:
        return one_line(error)
    return ""
