"""Upload to the Hub through huggingface_hub, with its endpoint and its login."""

__all__ = ["upload"]

from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError, one_line
from h2htalk_metric.publish.repositories import BENCHMARK, KINDS


def upload(folder: Path, kind: str, repo: str) -> tuple[str, str]:
    """Create the repository if it does not exist, and upload the folder in one commit.

    Other files of the repository stay. Results go to a model's repository as a pull request. A dataset's ``eval.yaml``
    follows in a second commit: the Hub checks it, and a refusal must not block the records.

    Args:
        folder: as prepared.
        kind: one of :data:`h2htalk_metric.publish.KINDS`.
        repo: ``ORG/NAME``.

    Returns:
        The URL of the commit or of the pull request; and why the Hub refused ``eval.yaml``, empty if it did not.

    Raises:
        H2HTalkError: there is no login, or the Hub refuses or cannot be reached.

    """
    from huggingface_hub import HfApi, get_token
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    if get_token() is None:
        raise H2HTalkError("no login for the Hub; run `hf auth login` or set HF_TOKEN")
    # The base class of the errors of huggingface_hub's HTTP client, which is requests, httpx or httpx2.
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
        refused = _upload_benchmark(api, folder, repo) if (folder / BENCHMARK).exists() else ""
    except OfflineModeIsEnabled:
        raise H2HTalkError("HF_HUB_OFFLINE is set, so nothing can be published; unset it or use --dry-run") from None
    except (client_error, OSError, ValueError) as error:
        raise H2HTalkError(f"cannot publish {repo} at {api.endpoint}: {one_line(error)}") from None
    return commit.pr_url or commit.commit_url, refused


def _upload_benchmark(api: Any, folder: Path, repo: str) -> str:
    """Upload a dataset's ``eval.yaml``; returns why the Hub refuses it, empty if it does not."""
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
