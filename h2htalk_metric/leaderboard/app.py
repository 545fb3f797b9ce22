"""The Space: reads its settings from the environment and serves the board.

H2HTALK_BOARD_REPO     id of the dataset repository that stores the submissions; needs HF_TOKEN with write access.
                       Without it nothing can be submitted to a Space, whose own disk is emptied at every restart.
H2HTALK_BOARD_FOLDER   folder for them; default ``board``
H2HTALK_RECOMPUTE_SS   1: compute SS of all answers again, which needs a GPU
"""

import os
import sys

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.leaderboard.page import build_app, launch
from h2htalk_metric.leaderboard.storage import Storage

_CLOSED = (
    "Submitting is off: this Space has no place to store a submission and would lose it at the next restart. Its owner "
    "can set the variable H2HTALK_BOARD_REPO to the id of a dataset repository, and the secret HF_TOKEN that may write "
    "to it."
)


def main() -> None:
    """Serve the board until it is stopped."""
    repo = os.environ.get("H2HTALK_BOARD_REPO") or None
    storage = Storage(
        os.environ.get("H2HTALK_BOARD_FOLDER", "board"),
        hub_repo=repo,
        recompute_ss=os.environ.get("H2HTALK_RECOMPUTE_SS") == "1",
    )
    launch(build_app(storage, _CLOSED if "SPACE_ID" in os.environ and repo is None else None))


if __name__ == "__main__":
    try:
        main()
    except H2HTalkError as error:
        sys.exit(f"error: {error}")
