"""The folder of a board and its dataset repository: what is stored, computed again, removed and refused."""

import gzip
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from helpers.board_runs import edited, make_run, packed, variant
from helpers.commands import h2htalk
from helpers.commands import run as start
from helpers.hub_stand_in import TOKEN, hub
from helpers.paths import PROGRAMS

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.leaderboard import submission as file_format
from h2htalk_metric.leaderboard.from_run import make_submission
from h2htalk_metric.leaderboard.run_page import run_page
from h2htalk_metric.leaderboard.storage import Storage


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """Eleven records, one per task."""
    return make_run(tmp_path_factory.mktemp("runs") / "one", "org/Small-1B", limit=1)


@pytest.fixture(scope="module")
def tree(run) -> dict:
    return json.loads(make_submission(run, "1-8B").model_dump_json())


def lines_of(folder):
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def test_missing_rows_and_rows_of_another_version_are_computed_again(tree, tmp_path):
    row = Storage(tmp_path, allow_partial=True).submit(packed(tree))
    file = tmp_path / "rows.jsonl"
    file.unlink()
    assert Storage(tmp_path).rows() == [row]
    content = file.read_text()
    file.write_text(json.dumps(lines_of(tmp_path)[0] | {"version": 1, "model": "old"}) + "\n")
    assert Storage(tmp_path).rows() == [row] and file.read_text() == content
    (tmp_path / "submissions" / f"{row.digest}.json.gz").unlink()  # removed by the owner
    assert Storage(tmp_path).rows() == []


def test_a_damaged_row_does_not_take_the_board_down(tree, tmp_path, capsys):
    storage = Storage(tmp_path, allow_partial=True)
    bad, good = (storage.submit(variant(tree, number)) for number in range(2))
    open_board = Storage(tmp_path)
    first, second = (tmp_path / "rows.jsonl").read_text().splitlines()
    capsys.readouterr()
    for damage in (first[:50], '{"version": 7, "digest": 3}', "[]", "\x00"):
        (tmp_path / "rows.jsonl").write_text(f"{damage}\n{second}\n")
        assert open_board.rows() == open_board.rows() == [good]
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1 and f"{bad.digest}.json.gz: it has no row in rows.jsonl; restart" in printed
    assert Storage(tmp_path).rows() == sorted([bad, good], key=lambda row: (row.submitted, row.digest))
    assert len(lines_of(tmp_path)) == 2


def test_a_board_folder_of_the_first_version_still_opens(tree, tmp_path):
    """Format 1 of a submission, and derived files in the folders rows and samples."""
    row = Storage(tmp_path / "new", allow_partial=True).submit(packed(tree))
    old = tmp_path / "old"
    for folder in ("submissions", "rows", "samples"):
        (old / folder).mkdir(parents=True)
    claims = {key: value for key, value in tree["claims"].items() if key != "claimed_only"}
    before = tree | {"format": 1, "claims": claims | {"beside": {"review": {"reviewed": 3}}}}
    before |= {"received": row.submitted.isoformat()}
    (old / "submissions" / f"{row.digest}.json.gz").write_bytes(packed(before))
    (old / "rows" / f"{row.digest}.json").write_text('{"format": 5}')
    (old / "rows" / f"{row.digest}.npy").write_bytes(b"\x93NUMPY")
    (old / "samples" / f"{row.digest}.json").write_text("{}")
    storage = Storage(old)
    assert storage.rows() == [row]
    assert storage.submission(row).claims.claimed_only == {"review": {"reviewed": 3}}
    assert "reviewed" in run_page(storage, row.digest)


def test_a_removed_run_can_be_submitted_again_while_the_board_is_open(tree, tmp_path):
    board, other = Storage(tmp_path, allow_partial=True), Storage(tmp_path, allow_partial=True)
    row = board.submit(packed(tree))
    assert [shown.bracket for shown in board.rows()] == [shown.bracket for shown in other.rows()] == ["1-8B"]
    with pytest.raises(H2HTalkError, match=f"owner of the board first deletes submissions/{row.digest}.json.gz"):
        board.submit(packed(tree, bracket="32B+"))
    (tmp_path / "submissions" / f"{row.digest}.json.gz").unlink()
    assert board.rows() == other.rows() == []
    again = board.submit(packed(tree, bracket="32B+", model="Renamed"))
    assert again.digest == row.digest
    for storage in (board, other, Storage(tmp_path)):
        assert [(shown.model, shown.bracket) for shown in storage.rows()] == [("Renamed", "32B+")]


def test_a_run_that_is_not_valid_any_more_is_left_off_and_may_be_submitted_again(tree, tmp_path, capsys):
    row = Storage(tmp_path, allow_partial=True).submit(packed(tree))
    (tmp_path / "rows.jsonl").unlink()
    file = tmp_path / "submissions" / f"{row.digest}.json.gz"
    other_dataset = json.loads(gzip.decompress(file.read_bytes()))
    other_dataset["manifest"]["dataset"]["fingerprint"] = "0" * 64
    file.write_bytes(packed(other_dataset))
    board = Storage(tmp_path, allow_partial=True)
    assert board.rows() == []
    assert "left off the board" in (printed := capsys.readouterr().err) and "answers other records" in printed
    assert board.submit(packed(tree, model="Again")).digest == row.digest
    assert [shown.model for shown in board.rows()] == ["Again"]


def test_a_file_with_another_name_than_its_digest_is_left_off(tree, tmp_path, capsys):
    row = Storage(tmp_path, allow_partial=True).submit(packed(tree))
    (tmp_path / "submissions" / f"{row.digest}.json.gz").rename(tmp_path / "submissions" / "qwen7b.json.gz")
    assert Storage(tmp_path).rows() == []
    assert f"qwen7b.json.gz: the file name must be the digest of the answers; rename it to {row.digest}" in (
        capsys.readouterr().err
    )


def test_a_folder_that_cannot_be_written_is_one_line(tree, tmp_path):
    storage = Storage(tmp_path / "board", allow_partial=True)
    (tmp_path / "board" / "rows.jsonl").mkdir()
    with pytest.raises(H2HTalkError, match=r"cannot write to the board's folder .*board \(.*\); nothing was stored"):
        storage.submit(packed(tree))
    (tmp_path / "board" / "rows.jsonl").rmdir()
    assert storage.rows() == []


def test_equal_answers_are_accepted_once_under_any_name(tree, tmp_path):
    storage = Storage(tmp_path, allow_partial=True)
    storage.submit(packed(tree))
    blanks = edited(tree, lambda t: t["answers"][0].update(prediction=t["answers"][0]["prediction"] + " \n"))
    for content in (packed(tree, model="Another"), blanks):
        with pytest.raises(H2HTalkError, match="already on the board, as 'Small-1B'"):
            storage.submit(content)


def _submit(work):
    folder, content = work
    try:
        return Storage(folder, allow_partial=True).submit(content).digest
    except H2HTalkError as error:
        return str(error)


def test_fifty_submissions_at_once_are_stored_once_each(tree, tmp_path):
    contents = [variant(tree, number) for number in range(50)]
    with ProcessPoolExecutor(2) as processes, ThreadPoolExecutor(20) as threads:
        # Each is sent three times at once: by another process, and by two threads of this one.
        storage = Storage(tmp_path, allow_partial=True)
        outside = [processes.submit(_submit, (tmp_path, content)) for content in contents]

        def send(content):
            try:
                return storage.submit(content).digest
            except H2HTalkError as error:
                return str(error)

        results = [*threads.map(send, contents * 2), *(future.result() for future in outside)]
    assert sum("already" in result for result in results) == 100
    assert len({result for result in results if "already" not in result}) == 50
    rows = Storage(tmp_path).rows()
    assert sorted(row.model for row in rows) == [f"Model-{number:04}" for number in range(50)]


def on_hub(server, folder, *files, token=TOKEN):
    """A board in its own process whose dataset repository is on the stand-in: standard output and standard error."""
    options = {"HF_ENDPOINT": server.url, "HF_HUB_OFFLINE": "0", "HF_TOKEN": token}
    script = PROGRAMS / "board_on_hub.py"
    done = start(sys.executable, script, folder, "team/board", *files, env=os.environ | options)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_a_dataset_repository_stores_the_board(tree, tmp_path):
    file = tmp_path / "one.json.gz"
    file.write_bytes(packed(tree))
    with hub() as server:
        stored = server.repos["dataset/team/board"] = {}
        refused, _ = on_hub(server, tmp_path / "first", file, token="hf_wrong")
        assert "the board's storage did not answer, nothing was stored" in refused and stored == {}
        assert on_hub(server, tmp_path / "first", file)[0] == "['Small-1B']\n"
        assert sorted(name.split("/")[0] for name in stored) == ["rows.jsonl", "submissions"]
        assert on_hub(server, tmp_path / "another-machine")[0] == "['Small-1B']\n"
        assert "already on the board" in on_hub(server, tmp_path / "another-machine", file)[0]
        del stored[next(name for name in stored if name.startswith("submissions"))]  # removed by the owner
        shown, printed = on_hub(server, tmp_path / "another-machine")
        assert shown == "[]\n" and "removed from the board" in printed
        assert len(list((tmp_path / "another-machine" / "submissions").glob("*.off"))) == 1


def test_rows_that_are_computed_again_are_committed(tree, tmp_path):
    Storage(tmp_path / "here", allow_partial=True).submit(packed(tree))
    files = [file for file in (tmp_path / "here").rglob("*") if file.is_file() and file.name != ".lock"]
    current = {str(file.relative_to(tmp_path / "here")): file.read_bytes() for file in files}
    old = json.dumps(json.loads(current["rows.jsonl"]) | {"version": 1}).encode()
    with hub() as server:
        stored = server.repos["dataset/team/board"] = current | {"rows.jsonl": old}
        shown, printed = on_hub(server, tmp_path / "read-only", token="hf_wrong")
        assert shown == "['Small-1B']\n" and "the next start computes it again" in printed
        assert stored["rows.jsonl"] == old
        assert on_hub(server, tmp_path / "again")[0] == "['Small-1B']\n"
        assert stored.keys() == current.keys()
        assert json.loads(stored["rows.jsonl"]) == json.loads(current["rows.jsonl"])
        assert "rows: " not in on_hub(server, tmp_path / "later")[1]  # nothing is left to compute


# The client tries an endpoint that does not answer again for half a minute.
@pytest.mark.parametrize("unreachable", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_space_that_cannot_download_its_repository_says_so_in_one_line(tmp_path, unreachable):
    pytest.importorskip("gradio", reason="gradio is not installed")
    with hub() as server:
        url = "http://127.0.0.1:9" if unreachable else server.url
        options = {"HF_ENDPOINT": url, "HF_HUB_OFFLINE": "0", "HF_TOKEN": TOKEN, "H2HTALK_BOARD_REPO": "team/none"}
        script = Path(file_format.__file__).with_name("app.py")
        done = start(sys.executable, script, env=os.environ | options, cwd=tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "\nerror: cannot download the board's dataset repository 'team/none'" in f"\n{done.stderr}"


def test_submit_and_pack_on_the_command_line(run, tmp_path):
    file = tmp_path / "run.json.gz"
    refused = h2htalk("submit", run, "--bracket", "1-8B", "--storage", tmp_path / "board")
    assert refused.returncode == 2 and "\nerror: a partial run of 11 records" in f"\n{refused.stderr}"
    done = h2htalk("submit", run, "--bracket", "0-1B", "--pack", file, "--allow-partial")
    assert done.returncode == 0, done.stderr
    assert Storage(tmp_path / "board", allow_partial=True).submit(file.read_bytes()).model == "Small-1B"
    nowhere = tmp_path / "nowhere" / "run.json.gz"
    for wrong, path, reason in (
        (["--pack", nowhere], nowhere, "No such file or directory"),
        (["--storage", file], f"{file}/submissions", "Not a directory"),
    ):
        refused = h2htalk("submit", run, "--bracket", "1-8B", "--allow-partial", *wrong)
        last = refused.stderr.splitlines()[-1]
        assert refused.returncode == 2 and last.startswith("error: ") and f"{path}: {reason}" in last


def test_the_space_folder_has_a_valid_card():
    from huggingface_hub import SpaceCard

    folder = Path(file_format.__file__).parent
    card = SpaceCard.load(folder / "README.md")
    data = card.data.to_dict()
    assert data["sdk"] == "gradio" and (folder / data["app_file"]).is_file()
    assert len(data["short_description"]) <= 60
    project = (folder.parents[1] / "pyproject.toml").read_text()
    assert "leaderboard = [" in project
    assert yaml.safe_load((folder / "README.md").read_text().split("---")[1])["sdk_version"].startswith("6.")
