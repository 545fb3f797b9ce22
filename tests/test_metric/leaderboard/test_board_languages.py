"""A board shows each language in rows and tables of its own."""

import json

import pytest
import yaml
from helpers.board_runs import make_run, packed

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.languages import LANGUAGES
from h2htalk_datasets.loading import manifest
from h2htalk_metric.leaderboard.board import by_scoring_config, run_board, table_data
from h2htalk_metric.leaderboard.from_run import make_submissions
from h2htalk_metric.leaderboard.storage import Storage
from h2htalk_metric.leaderboard.submission import pack, unpack
from h2htalk_metric.publish import results
from h2htalk_metric.publish.results import prepare_results

TASKS = "DialogueEmotion,ItineraryMiddle"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("run") / "run", "org/Model", language="en,zh", limit=2, tasks=TASKS)


@pytest.fixture(scope="module")
def board(run, tmp_path_factory):
    storage = Storage(tmp_path_factory.mktemp("board"), allow_partial=True)
    for submission in make_submissions(run, "1-8B").values():
        storage.submit(pack(submission))
    return storage


def test_a_run_in_two_languages_has_two_rows(board):
    rows = {row.language: row for row in board.rows()}
    assert sorted(rows) == ["en", "zh"]
    assert rows["en"].full_size == 4650
    assert rows["zh"].full_size == sum(manifest("zh")["counts"].values())
    assert rows["zh"].n == 4 and rows["zh"].partial


def test_each_language_has_a_table_of_its_own(board):
    groups = by_scoring_config(board.rows())
    assert [group[0].language for group in groups.values()] == ["en", "zh"]
    english, chinese = groups
    assert english.startswith("SS by ") and chinese.startswith("Chinese (中文), SS by ")
    counts = {column["name"]: column["n"] for column in table_data(run_board(groups[chinese]), links=False)["columns"]}
    assert (counts["DialogueEmotion"], counts["ItineraryMiddle"], counts["DialogueBase"]) == (2, 2, 0)


def test_a_submission_has_one_language(run):
    tree = json.loads(make_submissions(run, "1-8B")["zh"].model_dump_json())
    tree["manifest"]["dataset"]["languages"]["en"] = "0"
    with pytest.raises(H2HTalkError, match="manifest.dataset.languages"):
        unpack(packed(tree))


def test_a_chinese_run_is_checked_against_the_chinese_records(run, tmp_path):
    tree = json.loads(make_submissions(run, "1-8B")["zh"].model_dump_json())
    tree["manifest"]["dataset"]["languages"] = {"en": tree["manifest"]["dataset"]["fingerprint"]}
    with pytest.raises(H2HTalkError, match="not among the records of the run, the first: 'zh-"):
        Storage(tmp_path, allow_partial=True).submit(packed(tree))


def test_published_results_name_the_configs_of_complete_languages(tmp_path, monkeypatch):
    whole = make_run(
        tmp_path / "run", "org/Model", language="en,zh", tasks="ItineraryInitialization", embedder="BAAI/bge-m3"
    )
    monkeypatch.setattr(results, "complete_languages", lambda: list(LANGUAGES.values()))
    folder = prepare_results(whole, "org/h2htalk", "org/model", tmp_path)
    entries = yaml.safe_load((folder / ".eval_results" / "h2htalk.yaml").read_text())
    assert [entry["dataset"]["task_id"] for entry in entries] == [
        "ItineraryInitialization",
        "ItineraryInitialization-zh",
    ]
    monkeypatch.setattr(results, "complete_languages", lambda: [])
    with pytest.raises(H2HTalkError, match="no language whose records are complete"):
        prepare_results(whole, "org/h2htalk", "org/other", tmp_path)
