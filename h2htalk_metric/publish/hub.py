"""The way to the Hub, through huggingface_hub: its endpoint, its login."""

__all__ = ["upload"]

from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.publish.repositories import KINDS


def upload(folder: Path, kind: str, repo: str) -> str:
    """Make the repository if it isn't there, and put the folder into it in one commit.

    Nothing that stands in the repository is removed. Results go to a model's repository as a pull request.

    Args:
        folder: as it was prepared.
        kind: what it holds.
        repo: ``ORG/NAME``.

    Returns:
        The address of the commit, or of the pull request.

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
        )
    except OfflineModeIsEnabled:
        raise H2HTalkError("HF_HUB_OFFLINE is set, so nothing can be published; unset it, or use --dry-run") from None
    except (client_error, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        raise H2HTalkError(f"can't publish {repo} at {api.endpoint}: {reason}") from None
    return commit.pr_url or commit.commit_url
