"""The board without a browser: what is admitted and refused, what is computed, ties, marks, CSV, storage."""

import csv
import gzip
import io
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import yaml
from board_runs import make_run, packed, variant
from conftest import h2htalk
from conftest import run as start
from hub_stand_in import TOKEN, hub
from judging import verdict
from servers import scripted

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.generate import Settings, generate
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.leaderboard import submission as form
from h2htalk_metric.leaderboard.board import (
    LAYOUT,
    BoardRow,
    best_of_brackets,
    paper_board,
    run_board,
    setups,
    table_payload,
    tied_groups,
    to_csv,
)
from h2htalk_metric.leaderboard.radar import radar_svg
from h2htalk_metric.leaderboard.run_page import run_page
from h2htalk_metric.leaderboard.storage import Storage
from h2htalk_metric.run_scores import RunScores, score_run
from h2htalk_metric.statistics import CELLS, compare, resampled

EVIL = '<script>alert("x")</script>'


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """Eleven records, one of each task."""
    return make_run(tmp_path_factory.mktemp("runs") / "one", "org/Small-1B", limit=1)


@pytest.fixture(scope="module")
def tree(run) -> dict:
    return json.loads(form.read_run(run, "1-8B").model_dump_json())


def edited(tree: dict, edit) -> bytes:
    copy = json.loads(json.dumps(tree))
    edit(copy)
    return packed(copy)


def test_a_row_is_what_the_run_scored(run, tmp_path):
    storage = Storage(tmp_path, allow_partial=True)
    row = storage.submit(form.pack(form.read_run(run, "1-8B")))
    scores = RunScores.read(run)
    assert row.cells == pytest.approx(scores.row())
    assert row.model == "Small-1B" and row.partial and row.ss == "claimed" and row.n == 11
    for task, line in scores.by_task().iterrows():
        assert row.tasks[task]["kept"] == line["kept"]
    assert Storage(tmp_path).rows() == [row]  # another process sees the same


def test_a_whole_run_stands_on_a_strict_board(tmp_path):
    run = make_run(tmp_path / "run", "org/Whole-7B", kept=0.6)
    row = Storage(tmp_path / "board").submit(form.pack(form.read_run(run, "1-8B", "Whole")))
    assert not row.partial and row.n == 4650 and set(row.intervals) == set(CELLS)
    assert row.cells["Overall"] == pytest.approx(
        sum(row.cells[task.name] * task.count for task in TASKS.values()) / 4650
    )
    assert row.intervals["Overall"][0] < row.cells["Overall"] < row.intervals["Overall"][1]


def _drop_answer(tree):
    del tree["answers"][3]


def _unknown_id(tree):
    tree["answers"][0]["id"] = "en-999-DialogueBase-001"


def _twice(tree):
    tree["answers"].append(tree["answers"][0])


def _other_records(tree):
    tree["manifest"]["dataset"]["fingerprint"] = "0" * 64


def _other_prompts(tree):
    tree["manifest"]["prompts"]["sap"] = []


def _foreign_signature(tree):
    tree["signature"]["dataset"] = "abcdefabcdef"


def _other_rules(tree):
    tree["signature"]["bleu"] = "corpus"


def _better_answer(tree):
    tree["claims"]["tasks"]["ItineraryBasic"]["bleu1"] += 0.05


def _lifted_ss(tree):
    tree["answers"][0]["ss"] = 1.0


def _not_a_number(tree):
    tree["answers"][0]["ss"] = float("nan")


def _hidden_letters(tree):
    tree["model"] = "nice\u202eeman"


def _no_bracket(tree):
    tree["bracket"] = "huge"


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (_drop_answer, "RecollectionSynthesis 0 of 1"),
        (_unknown_id, "1 ids are not among the run's records, the first: 'en-999-DialogueBase-001'"),
        (_twice, "1 ids come twice"),
        (_other_records, "made on other records than this board's"),
        (_other_prompts, "prompts are not those"),
        (_foreign_signature, "dataset is 'abcdefabcdef'"),
        (_other_rules, "bleu is 'corpus'"),
        (_better_answer, "ItineraryBasic: bleu1 is claimed as"),
        (_lifted_ss, "DialogueBase: ss is claimed as"),
        (_not_a_number, "no whole JSON"),
        (_hidden_letters, "invisible characters"),
        (_no_bracket, "bracket"),
    ],
)
def test_refused_with_its_reason(tree, tmp_path, edit, reason):
    storage = Storage(tmp_path, allow_partial=True)
    with pytest.raises(H2HTalkError, match=reason.replace("(", r"\(")):
        storage.submit(edited(tree, edit))
    assert storage.rows() == []


def test_partial_runs_need_leave(tree, tmp_path):
    with pytest.raises(H2HTalkError, match="partial run of 11 records"):
        Storage(tmp_path).submit(packed(tree))


def test_the_same_answers_come_once_under_any_name(tree, tmp_path):
    storage = Storage(tmp_path, allow_partial=True)
    storage.submit(packed(tree))
    blanks = edited(tree, lambda t: t["answers"][0].update(prediction=t["answers"][0]["prediction"] + " \n"))
    for content in (packed(tree, model="Another"), blanks):
        with pytest.raises(H2HTalkError, match="on the board already, as 'Small-1B'"):
            storage.submit(content)


def test_size_limits(tree, tmp_path):
    storage = Storage(tmp_path, allow_partial=True)
    bomb = gzip.compress(b" " * (form.MAX_UNPACKED + 1))
    assert len(bomb) < 1_000_000
    with pytest.raises(H2HTalkError, match="unpacks to more than 80 MB"):
        storage.submit(bomb)
    with pytest.raises(H2HTalkError, match=r"has 20\.0 MB"):
        storage.submit(b"\0" * (form.MAX_PACKED + 1))
    with pytest.raises(H2HTalkError, match="not gzipped"):
        storage.submit(b"PK\x03\x04")
    with pytest.raises(H2HTalkError, match="prediction"):
        storage.submit(edited(tree, lambda t: t["answers"][0].update(prediction="a" * 20_001)))


def test_lost_and_old_rows_are_made_again(tree, tmp_path):
    row = Storage(tmp_path, allow_partial=True).submit(packed(tree))
    file = tmp_path / "rows" / f"{row.digest}.json"
    file.unlink()
    assert Storage(tmp_path).rows() == [row]
    file.write_text(file.read_text().replace('{"format":1', '{"format":0', 1))
    assert Storage(tmp_path).rows() == [row]
    (tmp_path / "submissions" / f"{row.digest}.json.gz").unlink()  # taken off by its keeper
    assert Storage(tmp_path).rows() == []


def _submit(work):
    folder, content = work
    try:
        return Storage(folder, allow_partial=True).submit(content).digest
    except H2HTalkError as error:
        return str(error)


def test_fifty_at_once_none_lost_none_twice(tree, tmp_path):
    contents = [variant(tree, number) for number in range(50)]
    with ProcessPoolExecutor(2) as processes, ThreadPoolExecutor(20) as threads:
        # Every one is sent three times at once: by another process, and by two threads of this one.
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


def test_ties_are_those_of_the_paired_bootstrap():
    draw = np.random.default_rng(1)
    base = {task: draw.uniform(20, 60, TASKS[task].count) for task in TASKS}
    runs = {
        "best": {task: values + 1.0 for task, values in base.items()},
        "near": {task: values + draw.normal(0.97, 2, len(values)) for task, values in base.items()},
        "far": {task: values - 1.0 for task, values in base.items()},
    }
    means = {
        name: sum(values.mean() * TASKS[task].count for task, values in items.items()) / 4650
        for name, items in runs.items()
    }
    draws = {name: resampled(items)["Overall"] for name, items in runs.items()}
    letters = tied_groups({name: (means[name], draws[name]) for name in runs} | {"part": (None, np.empty(0))})
    assert letters == {"best": "A", "near": "A", "far": "B"}
    for name in ("near", "far"):
        test = compare(runs["best"], runs[name])["Overall"]
        assert (test.low, test.high) == pytest.approx(np.percentile(draws["best"] - draws[name], [2.5, 97.5]))
        assert (test.low <= 0) == (letters[name] == "A")


def _row(key, bracket, value, **more):
    return BoardRow(key, more.pop("model", key), bracket, dict.fromkeys(LAYOUT, value), **more)


def test_marks_go_to_three_places_of_each_bracket():
    rows = [_row("a", "1-8B", 40.0), _row("b", "1-8B", 50.0), _row("c", "1-8B", 50.004), _row("d", "1-8B", 30.0)]
    rows += [_row("e", "32B+", 10.0), BoardRow("f", "f", "32B+", dict.fromkeys(LAYOUT) | {"Overall": 99.0})]
    places = {key: cells.get("Overall") for key, cells in best_of_brackets(rows).items()}
    assert places == {"b": 1, "c": 1, "a": 3, "d": None, "e": 1, "f": None}


def test_the_papers_rows_as_published():
    rows = {row.model: row for row in paper_board()}
    assert len(rows) == 38 and sum(row.whole for row in rows.values()) == 35
    assert rows["Qwen2.5-72B-Instruct-LoRA"].cells["Overall"] == 50.82
    claude = rows["Claude-3.7"].cells
    assert {cell: value for cell, value in claude.items() if value is not None} == {
        "ItineraryAdvanced": 58.72,
        "Overall": 53.39,
    }
    published = list(csv.DictReader((Path(__file__).parent / "data" / "paper_table2.csv").open()))
    for line in published:
        assert {cell: float(line[cell]) for cell in LAYOUT} == rows[line["model"]].cells
    assert list(LAYOUT) == list(published[0])[2:]


def test_runs_of_other_embedders_or_records_stand_apart(tree, run, tmp_path):
    storage = Storage(tmp_path, allow_partial=True)
    storage.submit(packed(tree))
    storage.submit(edited(tree, lambda t: t["signature"].update(embedder="another")))
    storage.submit(form.pack(form.read_run(make_run(tmp_path / "two", "org/m", limit=2), "1-8B")))
    groups = setups(storage.rows())
    assert sorted(map(len, groups.values())) == [1, 1, 1]
    assert all("partial" in title for title in groups)


def test_csv_is_inert_and_blank_where_unknown():
    names = ["=1+1", "+1", "-1", "@x", "\t=1", ' =HYPERLINK("http://x")', "plain, with comma"]
    rows = [_row(str(place), "1-8B", 50.0 - place, model=name) for place, name in enumerate(names)]
    rows.append(BoardRow("p", "p", "proprietary", dict.fromkeys(LAYOUT)))
    lines = list(csv.DictReader(io.StringIO(to_csv(rows))))
    assert [line["model"] for line in lines[:6]] == [f"'{name}" for name in names[:6]]
    assert lines[6]["model"] == "plain, with comma"
    assert lines[7]["Overall"] == "" and lines[0]["Overall"] == "50.00"


def test_every_text_from_outside_is_escaped(tree, tmp_path):
    storage = Storage(tmp_path, allow_partial=True)

    def poison(tree):
        tree["model"] = EVIL
        tree["manifest"]["model"][EVIL] = EVIL
        tree["manifest"]["software"] = {EVIL: EVIL}
        tree["signature"]["h2htalk"] = EVIL
        tree["answers"][0]["finish_reason"] = EVIL
        tree["claims"]["beside"] = {"judge": {EVIL: EVIL, "unscored": 2}, "safety": {"violation rate": 0.07}}

    row = storage.submit(edited(tree, poison))
    page = run_page(storage, row.digest)
    assert "<script" not in page and "&lt;script&gt;" in page
    assert "violation rate" in page and "unscored" in page and "embedder:hashed-words" in page
    rows = run_board(storage.rows(), storage)
    assert "<script" not in radar_svg(rows) and "&lt;script&gt;" in radar_svg(rows)
    assert table_payload(rows, links=True)["rows"][0]["model"] == EVIL  # as data; the table writes it as text
    with pytest.raises(H2HTalkError, match="no submission '../../x'"):
        run_page(storage, "../../x")


@pytest.mark.slow
def test_ss_of_a_real_run_is_recomputed_where_the_board_can(tiny_model, tmp_path):
    run = tmp_path / "run"
    generate(Settings(model=str(tiny_model), limit=1), run)
    score_run(run, "demo")
    content = form.pack(form.read_run(run, "1-8B"))
    row = Storage(tmp_path / "board", allow_partial=True, recompute_ss=True).submit(content)
    assert row.ss == "recomputed"
    tree = json.loads(gzip.decompress(content))
    for line in tree["answers"]:  # a lie that agrees with itself
        line["ss"] = 0.99 if line["prediction"].strip() else 0.0
        means = tree["claims"]["tasks"][line["id"].split("-")[2]]
        means["composite"] += (line["ss"] - means["ss"]) / 7
        means["ss"] = line["ss"]
    lied = packed(tree)
    assert Storage(tmp_path / "trusting", allow_partial=True).submit(lied).ss == "claimed"
    with pytest.raises(H2HTalkError, match="ss is claimed as 99.00 but the answers give"):
        Storage(tmp_path / "strict", allow_partial=True, recompute_ss=True).submit(lied)


@pytest.mark.slow
def test_judges_figures_stand_beside_and_change_nothing(run, tmp_path):
    judged = _copy(run, tmp_path / "judged")
    with scripted(lambda _: verdict(4)) as server:
        done = h2htalk("judge", judged, "--judge", "m", "--base-url", server.url)
    assert done.returncode == 0, done.stderr
    storage = Storage(tmp_path / "board", allow_partial=True)
    row = storage.submit(form.pack(form.read_run(judged, "1-8B")))
    basic = RunScores.read(run).row()["ItineraryBasic"]
    assert row.beside["judge"]["ItineraryBasic judge"] == 4
    assert row.beside["judge"]["ItineraryBasic j"] == pytest.approx(0.6 * basic / 20 + 0.4 * 4, abs=0.001)
    assert row.beside["judge"]["ItineraryBasic unscored"] == row.beside["review"]["ItineraryBasic reviewed"] == 0
    assert row.cells["ItineraryBasic"] == pytest.approx(basic)
    assert "ItineraryBasic j" in run_page(storage, row.digest)


def _copy(source: Path, target: Path) -> Path:
    import shutil

    return Path(shutil.copytree(source, target))


def test_a_dataset_repository_keeps_the_board(tree, tmp_path):
    file = tmp_path / "one.json.gz"
    file.write_bytes(packed(tree))

    def board(folder, *files, token=TOKEN):
        options = {"HF_ENDPOINT": server.url, "HF_HUB_OFFLINE": "0", "HF_TOKEN": token}
        script = Path(__file__).with_name("board_on_hub.py")
        done = start(sys.executable, script, tmp_path / folder, "team/board", *files, env=os.environ | options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    with hub() as server:
        server.repos["dataset/team/board"] = {}
        assert "the board's storage did not answer, nothing was kept" in board("first", file, token="hf_wrong")
        assert server.repos["dataset/team/board"] == {}
        assert board("first", file) == "['Small-1B']\n"
        names = sorted(name.split("/")[0] for name in server.repos["dataset/team/board"])
        assert names == ["rows", "rows", "submissions"]
        assert board("another-machine") == "['Small-1B']\n"
        assert "on the board already" in board("another-machine", file)


def test_submit_and_pack_on_the_command_line(run, tmp_path):
    file = tmp_path / "run.json.gz"
    refused = h2htalk("submit", run, "--bracket", "1-8B", "--storage", tmp_path / "board")
    assert refused.returncode == 2 and refused.stderr.startswith("error: a partial run of 11 records")
    done = h2htalk("submit", run, "--bracket", "1-8B", "--pack", file, "--allow-partial")
    assert done.returncode == 0, done.stderr
    assert Storage(tmp_path / "board", allow_partial=True).submit(file.read_bytes()).model == "Small-1B"


def test_the_space_folder_has_a_valid_card():
    from huggingface_hub import SpaceCard

    folder = Path(form.__file__).parent
    card = SpaceCard.load(folder / "README.md")
    data = card.data.to_dict()
    assert data["sdk"] == "gradio" and (folder / data["app_file"]).is_file()
    assert len(data["short_description"]) <= 60
    project = (folder.parents[1] / "pyproject.toml").read_text()
    assert "leaderboard = [" in project and (folder / "requirements.txt").read_text() == "h2htalk[leaderboard]\n"
    assert yaml.safe_load((folder / "README.md").read_text().split("---")[1])["sdk_version"].startswith("6.")
