"""The dataset repository on the Hub that stores a board's files for a Space."""

__all__ = ["commit", "fetch"]

import sys
from collections.abc import Mapping
from pathlib import Path

from h2htalk_datasets.errors import H2HTalkError, one_line


def fetch(repo: str, folder: Path) -> None:
    """Download submissions and rows; set local submissions aside that were deleted in the repository.

    Raises:
        H2HTalkError: the repository cannot be read.

    """
    from huggingface_hub import HfApi, snapshot_download

    try:
        patterns = ["submissions/*", "rows.jsonl"]
        snapshot_download(repo, repo_type="dataset", local_dir=folder, allow_patterns=patterns)
        stored = set(HfApi().list_repo_files(repo, repo_type="dataset"))
    except Exception as error:  # missing repository, permission or network: the board cannot start without it
        raise H2HTalkError(
            f"cannot download the board's dataset repository {repo!r} ({one_line(error)}); create it on the Hub, "
            "check that HF_TOKEN may write to it, and check the network"
        ) from error
    for file in folder.glob("submissions/*.json.gz"):
        if f"submissions/{file.name}" not in stored:
            print(f"removed from the board: {file.name} is not in {repo}; renamed to {file.name}.off", file=sys.stderr)
            file.rename(f"{file}.off")


def commit(repo: str, files: Mapping[str, bytes | Path], message: str) -> None:
    """Commit files by their path in the repository.

    Raises:
        H2HTalkError: nothing was committed.

    """
    from huggingface_hub import CommitOperationAdd, HfApi

    operations = [CommitOperationAdd(path, content) for path, content in files.items()]
    try:
        HfApi().create_commit(repo, operations, commit_message=message, repo_type="dataset")
    except Exception as error:  # the sender must learn of it, whatever the reason
        raise H2HTalkError(
            f"the board's storage did not answer, nothing was stored; try again ({one_line(error)})"
        ) from error
