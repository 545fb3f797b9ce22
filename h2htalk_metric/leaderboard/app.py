"""The Space: reads its settings from the environment and serves the board.

H2HTALK_BOARD_REPO     id of the dataset repository that keeps the submissions; needs HF_TOKEN with write access
H2HTALK_BOARD_FOLDER   a folder for them, ``board`` if not set
H2HTALK_RECOMPUTE_SS   1 to embed all answers anew, which wants a GPU
"""

import os

from h2htalk_metric.leaderboard.page import build_app, launch
from h2htalk_metric.leaderboard.storage import Storage

if __name__ == "__main__":
    storage = Storage(
        os.environ.get("H2HTALK_BOARD_FOLDER", "board"),
        hub_repo=os.environ.get("H2HTALK_BOARD_REPO"),
        recompute_ss=os.environ.get("H2HTALK_RECOMPUTE_SS") == "1",
    )
    launch(build_app(storage))
