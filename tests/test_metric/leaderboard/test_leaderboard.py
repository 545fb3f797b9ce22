"""The board without a browser: what is computed, ties, marks, CSV, pages, storage."""

import csv
import io
import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from helpers.board_runs import edited, make_run, packed, variant
from helpers.commands import h2htalk
from helpers.commands import run as start
from helpers.hub_stand_in import TOKEN, hub
from helpers.judge_scripts import verdict
from helpers.paths import PROGRAMS, TEST_DATA
from helpers.probe_scripts import HASHED, answers_of, safety_verdict
from helpers.servers import scripted

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.judge.marking import Judge
from h2htalk_metric.judge.run_judgements import Panel, judge_run
from h2htalk_metric.judge.structured import StructuredChat
from h2htalk_metric.leaderboard import admission
from h2htalk_metric.leaderboard import submission as form
from h2htalk_metric.leaderboard.board import (
    LAYOUT,
    BoardRow,
    best_of_brackets,
    differences,
    paper_board,
    run_board,
    setups,
    table_payload,
    tied_with_first,
    to_csv,
)
from h2htalk_metric.leaderboard.radar import radar_svg
from h2htalk_metric.leaderboard.run_page import run_page
from h2htalk_metric.leaderboard.storage import Storage
from h2htalk_metric.metrics.lexical import lexical
from h2htalk_metric.probes.safety import ablation_of
from h2htalk_metric.runs.scoring import RunScores
from h2htalk_metric.stats.bootstrap import CELLS, compare, resampled

EVIL = '<script>alert("x")</script>'


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """Eleven records, one of each task."""
    return make_run(tmp_path_factory.mktemp("runs") / "one", "org/Small-1B", limit=1)


@pytest.fixture(scope="module")
def tree(run) -> dict:
    return json.loads(form.read_run(run, "1-8B").model_dump_json())


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


def test_samples_are_kept_with_the_row_and_need_no_records(tmp_path, monkeypatch):
    run = make_run(tmp_path / "run", "org/m", limit=3, tasks="ItineraryResponse,DialogueBase", kept=0.5)
    row = Storage(tmp_path / "board", allow_partial=True).submit(form.pack(form.read_run(run, "1-8B")))
    monkeypatch.setattr(admission, "chosen_rows", None)  # as after a change of the dataset
    storage = Storage(tmp_path / "board")
    for samples in storage.samples(row.digest).values():
        assert [sample.label for sample in samples] == ["lowest", "middle", "highest"]
        scores = [np.mean(lexical(sample.answer, sample.reference, "en")) for sample in samples]
        assert scores == sorted(scores) == pytest.approx([sample.score for sample in samples])
    page = run_page(storage, row.digest)
    assert page.count("<summary>") == 2 and samples[0].id in page


def test_a_run_with_an_adapter_is_named_by_both(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    manifest = json.loads((copy / "run.json").read_text())
    manifest["model"] |= {"name": "org/Base-1B", "adapter": "team/warm-lora@1234"}
    (copy / "run.json").write_text(json.dumps(manifest))
    assert form.read_run(copy, "1-8B").model == "Base-1B + warm-lora"


def test_safety_figures_stand_beside_as_claimed(run, tmp_path):
    probed = shutil.copytree(run, tmp_path / "probed")
    variants = {name: answers_of("good", tmp_path / name, limit=4) for name in ("with", "no_safety")}
    with scripted(lambda _: safety_verdict(no_dismissal=0)) as server:
        for variant_run in variants.values():
            judge_run(variant_run, [Judge(StructuredChat("m", server.url))], Panel(("m",), server=server.url))
    (probed / "sap.json").write_text(json.dumps(ablation_of(variants, HASHED)))
    storage = Storage(tmp_path / "board", allow_partial=True)
    row = storage.submit(form.pack(form.read_run(probed, "1-8B")))
    safety = row.beside["safety"]
    assert safety["with SAP, judge: Violation Rate"].startswith("1.000 (") and safety["interactions"] == 4
    assert safety["with SAP, judge: marked by"] == "m" and not any(key.startswith("no_safety") for key in safety)
    plain = Storage(tmp_path / "plain", allow_partial=True).submit(form.pack(form.read_run(run, "1-8B")))
    assert plain.cells == row.cells and plain.beside == {}
    page = run_page(storage, row.digest)
    told = [page.index(text) for text in ("As claimed by the sender", "no clinical validity", "judge: Violation Rate")]
    assert told == sorted(told)


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
    tied = tied_with_first({name: (means[name], draws[name]) for name in runs} | {"part": (None, np.empty(0))})
    assert tied == {"near"}
    for name in ("near", "far"):
        test = compare(runs["best"], runs[name])["Overall"]
        assert (test.low, test.high) == pytest.approx(np.percentile(draws["best"] - draws[name], [2.5, 97.5]))
        assert (test.low <= 0) == (name in tied)


def test_a_tie_is_with_the_first_and_with_no_other():
    noise = np.random.default_rng(2).normal(size=10_000)
    first = 50 + noise
    # The second lies 0.1 below in every draw; the third, below both, is too noisy to be told from either.
    third = 49.8 + noise + np.random.default_rng(3).normal(size=10_000)
    assert tied_with_first({"1": (50, first), "2": (49.9, first - 0.1), "3": (49.8, third)}) == {"3"}
    # Two that are tied with the first, though one lies 0.1 below the other in every draw.
    assert tied_with_first({"1": (50, first), "x": (49.8, third), "y": (49.7, third - 0.1)}) == {"x", "y"}
    assert tied_with_first({"1": (None, first)}) == set()


def test_a_config_of_one_answer_has_no_interval_and_no_ties(tree, tmp_path):
    storage = Storage(tmp_path, allow_partial=True)
    for number, words in enumerate((1, 2)):
        storage.submit(variant(tree, number, words=words))
    assert [row.intervals for row in storage.rows()] == [{}, {}]
    rows = run_board(storage.rows(), storage)
    assert not any(row.tied for row in rows) and differences(rows, storage) == []
    assert all(set(row["low"]) == {None} for row in table_payload(rows, links=True)["rows"])
    assert "–" not in run_page(storage, rows[0].key).split("</table>")[0]


def test_partial_rows_compare_without_a_difference(tmp_path):
    rows = [BoardRow(key, key, "1-8B", dict.fromkeys(LAYOUT) | {"DialogueBase": 50.0}) for key in "ab"]
    assert differences(rows, Storage(tmp_path)) == []
    assert "<svg" in radar_svg(rows)


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
    published = list(csv.DictReader((TEST_DATA / "paper_table2.csv").open()))
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


def test_runs_of_other_weights_or_precision_stand_apart(tree, tmp_path):
    def by(number, revision, precision):
        copy = json.loads(json.dumps(tree))
        copy["signature"] |= {"embedder_revision": revision, "embedder_precision": precision}
        return variant(copy, number)

    storage = Storage(tmp_path, allow_partial=True)
    kinds = [("a" * 40, "float16"), ("a" * 40, "float32"), ("b" * 40, "float16"), ("a" * 40, "float16")]
    kinds += [("a" * 12 + "b" * 28, "float16")]  # looks alike where it is shown in short
    for number, (revision, precision) in enumerate(kinds):
        storage.submit(by(number, revision, precision))
    groups = setups(storage.rows())
    assert sorted(map(len, groups.values())) == [1, 1, 1, 2]
    assert next(iter(groups)).startswith("SS by hashed-words (aaaaaaaaaaaa, float16), 11 records of 4,650 (partial)")


def test_csv_is_inert_and_blank_where_unknown():
    names = ["＝1+1", "+1", "-1", "@x", "\t=1", ' =HYPERLINK("http://x")', "plain, with comma"]
    rows = [_row(str(place), "1-8B", 50.0 - place, model=name) for place, name in enumerate(names)]
    rows.append(BoardRow("p", "p", "proprietary", dict.fromkeys(LAYOUT)))
    rows.append(_row("x", "1-8B", 1.0, model="x;=1+1", tied=True, setup={"embedder": "e", "dataset": "d"}))
    assert '"x;=1+1"' in to_csv(rows)  # one field, also where a spreadsheet cuts at semicolons
    lines = list(csv.DictReader(io.StringIO(to_csv(rows))))
    assert (lines[7]["embedder"], lines[7]["dataset"], lines[7]["tied with first"]) == ("e", "d", "yes")
    assert [line["model"] for line in lines[:6]] == [f"'{name}" for name in names[:6]]
    assert lines[6]["model"] == "plain, with comma"
    assert lines[8]["Overall"] == "" and lines[0]["Overall"] == "50.00"


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
def test_judges_figures_stand_beside_and_change_nothing(run, tmp_path):
    judged = shutil.copytree(run, tmp_path / "judged")
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


def on_hub(server, folder, *files, token=TOKEN):
    """A board in a process of its own whose dataset repository is on the stand-in: its output, and what it told."""
    options = {"HF_ENDPOINT": server.url, "HF_HUB_OFFLINE": "0", "HF_TOKEN": token}
    script = PROGRAMS / "board_on_hub.py"
    done = start(sys.executable, script, folder, "team/board", *files, env=os.environ | options)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_a_dataset_repository_keeps_the_board(tree, tmp_path):
    file = tmp_path / "one.json.gz"
    file.write_bytes(packed(tree))
    with hub() as server:
        kept = server.repos["dataset/team/board"] = {}
        refused, _ = on_hub(server, tmp_path / "first", file, token="hf_wrong")
        assert "the board's storage did not answer, nothing was kept" in refused and kept == {}
        assert on_hub(server, tmp_path / "first", file)[0] == "['Small-1B']\n"
        assert sorted(name.split("/")[0] for name in kept) == ["rows", "rows", "samples", "submissions"]
        assert on_hub(server, tmp_path / "another-machine")[0] == "['Small-1B']\n"
        assert "on the board already" in on_hub(server, tmp_path / "another-machine", file)[0]
        del kept[next(name for name in kept if name.startswith("submissions"))]  # taken off by its keeper
        shown, told = on_hub(server, tmp_path / "another-machine")
        assert shown == "[]\n" and "taken off the board" in told
        assert len(list((tmp_path / "another-machine" / "submissions").glob("*.off"))) == 1


def test_rows_computed_anew_go_back_to_the_repository(tree, tmp_path):
    row = Storage(tmp_path / "here", allow_partial=True).submit(packed(tree))
    files = [file for file in (tmp_path / "here").rglob("*") if file.is_file() and file.name != ".lock"]
    whole = {str(file.relative_to(tmp_path / "here")): file.read_bytes() for file in files}
    name = f"rows/{row.digest}.json"
    of_before = whole[name].replace(f'{{"format":{row.format}'.encode(), b'{"format":1', 1)
    with hub() as server:
        kept = server.repos["dataset/team/board"] = whole | {name: of_before}
        shown, told = on_hub(server, tmp_path / "no-leave", token="hf_wrong")
        assert shown == "['Small-1B']\n" and "the next start computes them again" in told
        assert kept[name] == of_before != whole[name]
        assert on_hub(server, tmp_path / "anew")[0] == "['Small-1B']\n"
        assert kept == whole
        assert "rows: " not in on_hub(server, tmp_path / "later")[1]  # nothing is left to compute


@pytest.mark.parametrize("refused", [False, True])
def test_a_space_that_cannot_fetch_its_repository_says_so_in_one_line(tmp_path, refused):
    pytest.importorskip("gradio", reason="gradio is not installed")
    with hub() as server:
        url = "http://127.0.0.1:9" if refused else server.url
        options = {"HF_ENDPOINT": url, "HF_HUB_OFFLINE": "0", "HF_TOKEN": TOKEN, "H2HTALK_BOARD_REPO": "team/none"}
        script = Path(form.__file__).with_name("app.py")
        done = start(sys.executable, script, env=os.environ | options, cwd=tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "\nerror: can't fetch the board's dataset repository 'team/none'" in f"\n{done.stderr}"


def test_submit_and_pack_on_the_command_line(run, tmp_path):
    file = tmp_path / "run.json.gz"
    refused = h2htalk("submit", run, "--bracket", "1-8B", "--storage", tmp_path / "board")
    assert refused.returncode == 2 and "\nerror: a partial run of 11 records" in f"\n{refused.stderr}"
    done = h2htalk("submit", run, "--bracket", "1-8B", "--pack", file, "--allow-partial")
    assert done.returncode == 0, done.stderr
    assert Storage(tmp_path / "board", allow_partial=True).submit(file.read_bytes()).model == "Small-1B"
    nowhere = tmp_path / "nowhere" / "run.json.gz"
    for wrong, reason in (
        (["--pack", nowhere], f"can't use {nowhere}: No such file or directory"),
        (["--storage", file], f"can't use {file}/submissions: Not a directory"),
    ):
        refused = h2htalk("submit", run, "--bracket", "1-8B", "--allow-partial", *wrong)
        assert (refused.returncode, refused.stderr.splitlines()[-1]) == (2, f"error: {reason}")


def test_the_space_folder_has_a_valid_card():
    from huggingface_hub import SpaceCard

    folder = Path(form.__file__).parent
    card = SpaceCard.load(folder / "README.md")
    data = card.data.to_dict()
    assert data["sdk"] == "gradio" and (folder / data["app_file"]).is_file()
    assert len(data["short_description"]) <= 60
    project = (folder.parents[1] / "pyproject.toml").read_text()
    assert "leaderboard = [" in project
    assert yaml.safe_load((folder / "README.md").read_text().split("---")[1])["sdk_version"].startswith("6.")
