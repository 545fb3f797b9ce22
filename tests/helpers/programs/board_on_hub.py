"""Opens a board that a dataset repository stores, submits files, and prints its runs: FOLDER REPO [FILE ...]."""

import sys
from pathlib import Path

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.leaderboard.storage import Storage

folder, repo, *files = sys.argv[1:]
storage = Storage(folder, hub_repo=repo, allow_partial=True)
for file in files:
    try:
        storage.submit(Path(file).read_bytes())
    except H2HTalkError as error:
        print(f"refused: {error}")
print([row.model for row in storage.rows()])
