"""The app without a browser."""

import json
from pathlib import Path

import pytest
from helpers.board_runs import make_run, packed, variant

from h2htalk_metric.leaderboard.from_run import make_submission
from h2htalk_metric.leaderboard.storage import Storage

pytest.importorskip("gradio", reason="gradio is not installed")


@pytest.fixture
def tree(tmp_path) -> dict:
    run = make_run(tmp_path / "run", "org/Small-1B", limit=1)
    return json.loads(make_submission(run, "1-8B").model_dump_json())


def load_events(app):
    return [function.fn for function in app.fns.values() if ("load" in {event for _, event in function.targets})]


def test_csv_files_of_earlier_states_are_removed(tree, tmp_path, monkeypatch):
    from h2htalk_metric.leaderboard.page import build_app

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "gradio"))  # Gradio's own copies, which it deletes itself
    storage = Storage(tmp_path / "board", allow_partial=True)
    app = build_app(storage)
    show, *_ = load_events(app)
    for number in range(3):
        storage.submit(packed(tree) if number == 0 else variant(tree, number))
        csv_file = next(value for value in show(None) if str(value).endswith(".csv"))
    files = list(tmp_path.glob("h2htalk-board-*/*/*.csv"))
    assert Path(csv_file).read_text().count('"Model-') == 2
    # One of the paper's table, one of the empty board, one of the runs.
    assert sorted(file.name for file in files) == ["h2htalk-paper.csv", "h2htalk-runs.csv", "h2htalk-runs.csv"]


def test_uploads_and_downloads_are_deleted_after_a_day(tmp_path):
    from h2htalk_metric.leaderboard.page import build_app

    assert build_app(Storage(tmp_path)).delete_cache == (3600, 86_400)  # checked hourly, in seconds
