"""Rows, ties, places, CSV and pages of the board, without a browser."""

import csv
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.board_runs import edited, make_run, packed, variant
from helpers.commands import h2htalk
from helpers.judge_scripts import verdict
from helpers.paths import TEST_DATA
from helpers.probe_scripts import HASHED, answers_of, safety_verdict
from helpers.servers import scripted

from h2htalk_datasets import load
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.loading import load_memory
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.judge.judge import Judge
from h2htalk_metric.judge.judge_run import judge_run
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.judge.structured import StructuredChat
from h2htalk_metric.leaderboard.board import (
    LAYOUT,
    BoardRow,
    best_of_brackets,
    board_csv,
    by_scoring_config,
    detectable_difference,
    overall_difference,
    paper_board,
    run_board,
    table_data,
    tied_with_first,
)
from h2htalk_metric.leaderboard.comparison import choices, comparison
from h2htalk_metric.leaderboard.from_run import make_submission
from h2htalk_metric.leaderboard.run_page import run_page
from h2htalk_metric.leaderboard.storage import Storage
from h2htalk_metric.leaderboard.submission import pack
from h2htalk_metric.memory.results import measure_answers
from h2htalk_metric.metrics.lexical import lexical
from h2htalk_metric.probes.results import write_result
from h2htalk_metric.probes.safety import measure_safety
from h2htalk_metric.runs.compare import compare_runs
from h2htalk_metric.runs.scoring import read_scores
from h2htalk_metric.runs.slices import slices
from h2htalk_metric.stats.aggregate import CELLS
from h2htalk_metric.stats.clusters import ClusterSums
from h2htalk_metric.stats.significance import paired_row_tests

EVIL = '<script>alert("x")</script>'


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """Eleven records, one per task."""
    return make_run(tmp_path_factory.mktemp("runs") / "one", "org/Small-1B", limit=1)


@pytest.fixture(scope="module")
def tree(run) -> dict:
    return json.loads(make_submission(run, "1-8B").model_dump_json())


def test_a_row_has_the_scores_of_the_run(run, tmp_path):
    storage = Storage(tmp_path, allow_partial=True)
    row = storage.submit(pack(make_submission(run, "1-8B")))
    scores = read_scores(run)
    assert row.cells == pytest.approx(scores.row())
    assert row.model == "Small-1B" and row.partial and row.ss == "claimed" and row.n == 11
    for task, line in scores.by_task().iterrows():
        assert row.tasks[task]["format_rate"] == line["format_rate"]
    assert Storage(tmp_path).rows() == [row]  # another process reads the same


def test_a_full_run_is_accepted_and_has_the_intervals_of_its_report(tmp_path):
    run = make_run(tmp_path / "run", "org/Full-7B", share=0.6)
    row = Storage(tmp_path / "board").submit(pack(make_submission(run, "1-8B", "Full")))
    assert not row.partial and row.n == 4650 and set(row.intervals) == set(CELLS)
    assert row.cells["Overall"] == pytest.approx(
        sum(row.cells[task.name] * task.count for task in TASKS.values()) / 4650
    )
    for cell, (low, high) in row.intervals.items():
        assert (low, high) == pytest.approx(read_scores(run).intervals()[cell][1:])
    needs = {one.level: one for one in row.levels if one.factor == "need"}
    for one in slices(read_scores(run), "need"):
        assert (needs[one.level].n, needs[one.level].value) == (one.n, pytest.approx(one.score.value, abs=1e-3))
        assert needs[one.level].detectable == pytest.approx(one.detectable, abs=1e-3)
    assert set(row.need_effects) == {"raw", "within_config", "adjusted"} and set(row.detectable) == set(CELLS)
    page = run_page(Storage(tmp_path / "board"), row.digest)
    assert "implicit" in page and "Unsaid minus explicit needs" in page and "detectable" in page
    line = (tmp_path / "board" / "rows.jsonl").read_text()
    assert len(line) < 25_000 and row.sums.sums.shape == (50, 11)


def test_models_below_one_billion_parameters_have_a_bracket(run, tmp_path):
    row = Storage(tmp_path, allow_partial=True).submit(pack(make_submission(run, "0-1B", "SmolLM2-135M")))
    assert table_data(run_board([row]), links=True)["brackets"] == ["0-1B"]


def test_the_page_of_a_run_shows_sample_answers(tmp_path):
    run = make_run(tmp_path / "run", "org/m", limit=3, tasks="ItineraryResponse,DialogueBase", share=0.5)
    storage = Storage(tmp_path / "board", allow_partial=True)
    row = storage.submit(pack(make_submission(run, "1-8B")))
    answers = {answer.id: answer.prediction for answer in storage.submission(row).answers}
    references = {record["id"]: record["reference"] for task in row.samples for record in load(task)}
    for samples in row.samples.values():
        assert [sample.label for sample in samples] == ["lowest", "middle", "highest"]
        scores = [np.mean(lexical(answers[sample.id], references[sample.id], "en")) for sample in samples]
        assert scores == sorted(scores) == pytest.approx([sample.score for sample in samples])
    page = run_page(storage, row.digest)
    assert page.count("<summary>") == 2 and page.count("<p>reference</p>") == 6 and samples[0].id in page


def test_a_run_with_an_adapter_is_named_by_both(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    manifest = json.loads((copy / "run.json").read_text())
    manifest["model"] |= {"name": "org/Base-1B", "adapter": "team/warm-lora@1234"}
    (copy / "run.json").write_text(json.dumps(manifest))
    assert make_submission(copy, "1-8B").model == "Base-1B + warm-lora"


def test_memory_figures_are_shown_as_claimed(run, tmp_path):
    rows = load_memory().to_list()[:12]
    measured = measure_answers(rows, {row["id"]: row["reference"] for row in rows}, "arc")
    strategies = {"arc full": measured | {"tokens_per_answer": 99.6, "unscored": {}}}
    copy = shutil.copytree(run, tmp_path / "copy")
    write_result(
        copy, "memory", {"probe": "CompanionMemory", "strategies": strategies, "signature": {"questions": "abc"}}
    )
    memory = make_submission(copy, "1-8B").claims.claimed_only["memory"]
    assert memory["arc full: right"].startswith("1.000") and memory["arc full: tokens per answer"] == 100
    storage = Storage(tmp_path / "board", allow_partial=True)
    page = run_page(storage, storage.submit(pack(make_submission(copy, "1-8B"))).digest)
    assert "arc full: right" in page


def test_safety_figures_are_shown_as_claimed(run, tmp_path):
    probed = shutil.copytree(run, tmp_path / "probed")
    variants = {name: answers_of("good", tmp_path / name, limit=4) for name in ("with", "no_safety")}
    with scripted(lambda _: safety_verdict(no_dismissal=0)) as server:
        for variant_run in variants.values():
            judge_run(variant_run, [Judge(StructuredChat("m", server.url))], Panel(("m",), server=server.url))
    write_result(probed, "safety", measure_safety({"teacher_forced": variants}, HASHED))
    storage = Storage(tmp_path / "board", allow_partial=True)
    row = storage.submit(pack(make_submission(probed, "1-8B")))
    safety = storage.submission(row).claims.claimed_only["safety"]
    assert safety["with SAP, judge: Violation Rate"].startswith("1.000 (") and safety["interactions"] == 4
    assert safety["with SAP, judge: rated by"] == "m" and not any(key.startswith("no_safety") for key in safety)
    plain_storage = Storage(tmp_path / "plain", allow_partial=True)
    plain = plain_storage.submit(pack(make_submission(run, "1-8B")))
    assert plain.cells == row.cells and plain_storage.submission(plain).claims.claimed_only == {}
    page = run_page(storage, row.digest)
    places = [
        page.index(text) for text in ("As claimed by the sender", "no clinical validity", "judge: Violation Rate")
    ]
    assert places == sorted(places)


@pytest.mark.slow
def test_figures_of_judges_are_shown_and_change_no_score(run, tmp_path):
    judged = shutil.copytree(run, tmp_path / "judged")
    with scripted(lambda _: verdict(4)) as server:
        done = h2htalk("judge", judged, "--judge", "m", "--base-url", server.url)
    assert done.returncode == 0, done.stderr
    storage = Storage(tmp_path / "board", allow_partial=True)
    row = storage.submit(pack(make_submission(judged, "1-8B")))
    basic = read_scores(run).row()["ItineraryBasic"]
    claimed = storage.submission(row).claims.claimed_only
    assert claimed["judge"]["ItineraryBasic judge_score"] == 4
    assert claimed["judge"]["ItineraryBasic j"] == pytest.approx(0.6 * basic / 20 + 0.4 * 4, abs=0.001)
    levels = [key for key in claimed["judge"] if key.startswith("J, difficulty ")]
    assert levels and claimed["judge"][levels[0]].endswith(("n = 1", "n = 2", "n = 3"))
    assert claimed["judge"]["ItineraryBasic unscored"] == claimed["review"]["ItineraryBasic reviewed"] == 0
    assert row.cells["ItineraryBasic"] == pytest.approx(basic)
    assert "ItineraryBasic j" in run_page(storage, row.digest)


def items_of_three_runs():
    """S times 100 of the items of three runs, and the relationship of each item."""
    generator = np.random.default_rng(1)
    clusters = {task: [f"en-{place % 50:03}" for place in range(TASKS[task].count)] for task in TASKS}
    effects = {task: generator.normal(0, 2, 50)[np.arange(TASKS[task].count) % 50] for task in TASKS}
    base = {task: generator.uniform(20, 60, TASKS[task].count) for task in TASKS}
    runs = {
        "best": {task: values + 1.0 for task, values in base.items()},
        "near": {task: values + 0.9 + effects[task] for task, values in base.items()},
        "far": {task: values - 1.0 for task, values in base.items()},
    }
    return runs, clusters


def test_a_run_is_tied_if_the_paired_interval_with_the_first_contains_0():
    runs, clusters = items_of_three_runs()
    sums = {name: ClusterSums.of(items, clusters) for name, items in runs.items()}
    part = ClusterSums.of({"DialogueBase": runs["best"]["DialogueBase"]})
    assert tied_with_first(sums | {"part": part}) == {"near"}
    for name in ("near", "far"):
        test = paired_row_tests(runs["best"], runs[name], clusters)["Overall"]
        difference = overall_difference(sums["best"], sums[name])
        assert difference == pytest.approx((test.difference, test.low, test.high))
        assert (difference.low <= 0 <= difference.high) == (name in tied_with_first(sums))


def test_ties_are_within_a_bracket_and_compared_below_the_table(tmp_path):
    storage = Storage(tmp_path / "board", allow_partial=True)
    for name, seed, bracket in (("a", 1, "1-8B"), ("b", 2, "1-8B"), ("c", 3, "32B+")):
        run = make_run(tmp_path / name, f"org/{name}", limit=4, seed=seed)
        storage.submit(pack(make_submission(run, bracket)))
    rows = {row.model: row for row in run_board(storage.rows())}
    second = min("ab", key=lambda name: rows[name].cells["Overall"])
    assert [name for name, row in rows.items() if row.tied] == [second]
    html = comparison(list(rows.values()), [rows["c"].key, rows["a"].key])
    difference, low, high = overall_difference(rows["a"].sums, rows["c"].sums)
    detectable = detectable_difference(rows["a"].sums, rows["c"].sums)
    assert f"<td>{difference:+.2f}</td><td>{low:+.2f} to {high:+.2f}</td><td>detectable {detectable:.2f}</td>" in html
    assert detectable == pytest.approx(compare_runs(tmp_path / "a", tmp_path / "c")["Overall"].detectable, rel=1e-3)
    assert "Overall minus that of c" in html and "clustered by relationship" in html
    assert comparison(list(rows.values()), []) == ""


def test_a_config_with_one_answer_has_no_interval_and_no_ties(tree, tmp_path):
    storage = Storage(tmp_path, allow_partial=True)
    for number, words in enumerate((1, 2)):
        storage.submit(variant(tree, number, words=words))
    assert [row.intervals for row in storage.rows()] == [{}, {}]
    rows = run_board(storage.rows())
    assert not any(row.tied for row in rows) and "Overall minus" not in comparison(rows, [row.key for row in rows])
    assert all(set(row["low"]) == {None} for row in table_data(rows, links=True)["rows"])
    assert "–" not in run_page(storage, rows[0].key).split("</table>")[0]


def test_runs_of_few_configs_have_no_radar_and_no_difference():
    rows = [BoardRow(key, key, "1-8B", dict.fromkeys(LAYOUT) | {"DialogueBase": 50.0}) for key in "ab"]
    assert "at least three configs" in comparison(rows, ["a", "b"])
    rows = [BoardRow(key, "same name", "1-8B", dict.fromkeys(LAYOUT, 50.0)) for key in "ab"]
    html = comparison(rows, ["a", "b"])
    assert html.count('class="name"') == 2 and "Overall minus" not in html
    assert choices(rows) == [("same name (a)", "a"), ("same name (b)", "b")]


def _row(key, bracket, value, **more):
    return BoardRow(key, more.pop("model", key), bracket, dict.fromkeys(LAYOUT, value), **more)


def test_there_are_three_places_per_bracket():
    rows = [_row("a", "1-8B", 40.0), _row("b", "1-8B", 50.0), _row("c", "1-8B", 50.004), _row("d", "1-8B", 30.0)]
    rows += [_row("e", "32B+", 10.0), BoardRow("f", "f", "32B+", dict.fromkeys(LAYOUT) | {"Overall": 99.0})]
    places = {key: cells.get("Overall") for key, cells in best_of_brackets(rows).items()}
    assert places == {"b": 1, "c": 1, "a": 3, "d": None, "e": 1, "f": None}


def test_the_papers_rows_are_as_published():
    rows = {row.model: row for row in paper_board()}
    assert len(rows) == 38 and sum(row.complete for row in rows.values()) == 35
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


def test_runs_with_other_embedders_or_records_are_in_other_tables(tree, tmp_path):
    storage = Storage(tmp_path, allow_partial=True)
    storage.submit(packed(tree))
    storage.submit(edited(tree, lambda t: t["signature"].update(embedder="another")))
    storage.submit(pack(make_submission(make_run(tmp_path / "two", "org/m", limit=2), "1-8B")))
    groups = by_scoring_config(storage.rows())
    assert sorted(map(len, groups.values())) == [1, 1, 1]
    assert all("partial" in title for title in groups)


def test_runs_with_other_weights_or_precision_are_in_other_tables(tree, tmp_path):
    storage = Storage(tmp_path, allow_partial=True)
    kinds = [("a" * 40, "float16"), ("a" * 40, "float32"), ("b" * 40, "float16"), ("a" * 40, "float16")]
    kinds += [("a" * 12 + "b" * 28, "float16")]  # its shortened revision looks the same
    for number, (revision, precision) in enumerate(kinds):
        copy = json.loads(json.dumps(tree))
        copy["signature"] |= {"embedder_revision": revision, "embedder_precision": precision}
        storage.submit(variant(copy, number))
    groups = by_scoring_config(storage.rows())
    assert sorted(map(len, groups.values())) == [1, 1, 1, 2]
    assert next(iter(groups)).startswith("SS by hashed-words (aaaaaaaaaaaa, float16), 11 records of 4,650 (partial)")


def test_csv_has_no_formulas_and_blank_cells_for_missing_figures():
    names = ["＝1+1", "+1", "-1", "@x", "\t=1", ' =HYPERLINK("http://x")', "plain, with comma"]
    rows = [_row(str(place), "1-8B", 50.0 - place, model=name) for place, name in enumerate(names)]
    rows.append(BoardRow("p", "p", "proprietary", dict.fromkeys(LAYOUT)))
    config = {"embedder": "e", "dataset": "d"}
    measured = {"intervals": {"Overall": (0.5, 1.5)}, "detectable": {"Overall": 0.7}}
    rows.append(_row("x", "1-8B", 1.0, model="x;=1+1", tied=True, scoring_config=config, **measured))
    assert '"x;=1+1"' in board_csv(rows)  # one field, also if a spreadsheet splits at semicolons
    lines = list(csv.DictReader(io.StringIO(board_csv(rows))))
    assert (lines[7]["embedder"], lines[7]["dataset"], lines[7]["tied with first"]) == ("e", "d", "yes")
    names_of_cells = ("Overall 95% low", "Overall 95% high", "Overall detectable")
    assert [lines[7][name] for name in names_of_cells] == ["0.50", "1.50", "0.70"]
    assert [lines[0][name] for name in names_of_cells] == [""] * 3
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
        tree["claims"]["claimed_only"] = {"judge": {EVIL: EVIL, "unscored": 2}, "safety": {"violation rate": 0.07}}

    row = storage.submit(edited(tree, poison))
    page = run_page(storage, row.digest)
    assert "<script" not in page and "&lt;script&gt;" in page
    assert "violation rate" in page and "unscored" in page and "embedder:hashed-words" in page
    rows = run_board(storage.rows())
    twice = [*rows, _row("other", "1-8B", 50.0, model=EVIL + "2", sums=rows[0].sums, intervals=rows[0].intervals)]
    html = comparison(twice, [row.key for row in twice])
    assert "<script" not in html and "&lt;script&gt;" in html
    assert table_data(rows, links=True)["rows"][0]["model"] == EVIL  # as data; the table sets it as text
    with pytest.raises(H2HTalkError, match="no submission '../../x'"):
        run_page(storage, "../../x")
