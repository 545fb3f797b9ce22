"""`h2htalk remember` from the command to the report, with a scripted model whose answers depend on what it is shown."""

import json
import re
import shutil
import sys

import pytest
from helpers.commands import h2htalk
from helpers.judge_scripts import block, verdict_of_schema
from helpers.launch import started
from helpers.report_runs import scored_run
from helpers.servers import scripted

from h2htalk_datasets.generation.requests import chosen_rows
from h2htalk_datasets.loading import load_memory
from h2htalk_metric.memory.judging import answer_runs, memory_items
from h2htalk_metric.memory.results import measure_answers
from h2htalk_metric.reports.report import write_report

NUM_ARCS = 2


@pytest.fixture(scope="module")
def rows():
    every = load_memory().to_list()
    first = list(dict.fromkeys(row["relationship"] for row in every))[:NUM_ARCS]
    return [row for row in every if row["relationship"] in first]


@pytest.fixture(scope="module")
def model(rows):
    """Knows the right answer exactly if it is shown some of the conversation; extracts one memory per session."""
    by_message = {row["message"]: row for row in rows}

    def answer(request):
        text = request["messages"][-1]["content"]
        if "The conversation:" in text:
            return "Memory Content: They talked.\nMemory Category: Mood\nMemory Importance: 2"
        if "The memory, tidied:" in text:
            return "They talked again."
        row = next(row for message, row in by_message.items() if message in text)
        return row["reference"] if "Your earlier conversations:" in text else "You never told me."

    with scripted(answer) as server:
        yield server


def remember(model, out, *options):
    fixed = ("--model", "m", "--base-url", model.url, "--out", out, "--arcs", NUM_ARCS, "--max-connections", 4)
    return h2htalk("remember", *fixed, *options)


@pytest.fixture(scope="module")
def out(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("remember") / "run"
    for strategy in ("none", "full"):
        done = remember(model, folder, "--memory", strategy)
        assert done.returncode == 0, done.stderr
    return folder


def test_strategies_are_compared(out, rows):
    result = json.loads((out / "probes" / "memory.json").read_text("utf-8"))
    assert set(result["strategies"]) == {"arc none", "arc full"}
    full, none = result["strategies"]["arc full"], result["strategies"]["arc none"]
    assert full["n"] == len(rows)
    assert full["accuracy"]["all"]["value"] == 1.0
    assert none["accuracy"]["abstention"]["value"] == 1.0
    assert none["accuracy"]["recall"]["value"] == 0.0
    (test,) = result["tests"]
    assert test["first"] == "arc full"
    assert test["difference"] == pytest.approx(1 - none["accuracy"]["all"]["value"])
    page = (out / "probes" / "memory.md").read_text("utf-8")
    assert "Right answers by family" in page


def test_a_second_call_sends_nothing(out, model):
    before = len(model.requests)
    done = remember(model, out, "--memory", "full")
    assert done.returncode == 0, done.stderr
    assert len(model.requests) == before


def test_a_judge_is_reported_apart_from_the_verdicts(out, rows, tmp_path):
    folder = shutil.copytree(out, tmp_path / "run")
    references = {row["reference"] for row in rows}
    result_file = folder / "probes" / "memory.json"
    verdicts = {name: one["verdicts"] for name, one in json.loads(result_file.read_text())["strategies"].items()}

    def mark(request):  # right if it is a reference; the judge also likes every abstention
        answer = block(request, "ANSWER")
        return verdict_of_schema(request, int(answer in references or "never told me" in answer))

    with scripted(mark) as judge:
        options = ("probe", "memory", folder, "--judge", "j", "--base-url", judge.url)
        planned = h2htalk(*options, "--dry-run")
        assert f"{2 * len(rows)} answers, 1 judges: {2 * len(rows)} judgements to make" in planned.stdout
        assert not judge.requests
        done = h2htalk(*options)
        assert done.returncode == 0, done.stderr
        asked = len(judge.requests)
        assert asked == 2 * 2 * len(rows)  # two strategies, two positions
        assert h2htalk(*options).returncode == 0
        assert len(judge.requests) == asked  # verdicts on disk are not requested again
    result = json.loads(result_file.read_text("utf-8"))
    assert {name: one["verdicts"] for name, one in result["strategies"].items()} == verdicts
    none, full = (result["strategies"][f"arc {name}"] for name in ("none", "full"))
    assert full["judge"]["right"]["value"] == full["judge"]["agreement"]["value"] == 1
    assert none["judge"]["right"]["value"] == 1
    assert none["judge"]["agreement"]["value"] == pytest.approx(none["accuracy"]["all"]["value"])
    assert result["signature"]["judge"] == "j"
    page = (folder / "probes" / "memory.md").read_text("utf-8")
    assert f"| arc full | j | {len(rows)} | 0 | 100 (" in page


def test_a_judge_sees_what_was_said_and_what_is_needed(out, rows):
    (run,) = answer_runs(out / "probes" / "memory" / "arc" / "full")
    items = {item.id: item for item in memory_items(run, rows)}
    assert list(items) == [row["id"] for row in rows]
    for row in rows:
        item = items[row["id"]]
        assert row["message"] in item.context and item.blocks["reference"] == row["reference"]
        said = [
            session["turns"][place["turn"] - 1]["content"]
            for place in row["evidence"]
            for session in row["sessions"]
            if session["id"] == place["session"]
        ]
        assert all(turn in item.item_context for turn in said)
        assert ("it was never said" in item.item_context) == (not said)
        assert all(fact in item.item_context for fact in row["facts"])


def test_a_folder_without_answers_cannot_be_judged(tmp_path):
    done = h2htalk("probe", "memory", tmp_path, "--judge", "j")
    assert done.returncode == 2
    assert "run h2htalk remember first" in done.stderr


def test_the_judge_of_the_tasks_names_the_command_for_memory(out):
    done = h2htalk("judge", out / "probes" / "memory" / "arc" / "full" / "answers" / "1", "--judge", "j", "--dry-run")
    assert done.returncode == 2
    assert "h2htalk probe memory RUN" in done.stderr


@pytest.mark.slow
def test_notes_use_the_papers_own_tasks(model, tmp_path, rows):
    before = len(model.requests)
    done = remember(model, tmp_path / "run", "--memory", "notes", "--length", "2k")
    assert done.returncode == 0, done.stderr
    texts = [request["messages"][-1]["content"] for request in model.requests[before:]]
    assert any("What you keep:" in text for text in texts)
    assert any("The memory, tidied:" in text for text in texts)  # the second session repeats the first one's memory
    assert sum("What you remember, with the day of each memory:" in text for text in texts) == len(rows)


@pytest.mark.slow
def test_questions_without_context_are_unscored_and_asked_later(model, tmp_path, rows):
    flaky = tmp_path / "flaky.py"
    body = (
        "class Memory:\n    def observe(self, s):\n        {}\n    def context(self, q):\n        return 'Nothing.'\n"
    )
    flaky.write_text(body.format("assert s['id'] != 's2', 'no room left'"), "utf-8")
    out = tmp_path / "run"
    done = remember(model, out, "--memory", f"{flaky}:Memory")
    assert done.returncode == 0, done.stderr
    assert "questions have no context and are unscored" in done.stdout
    assert "observe failed: AssertionError: no room left" in done.stdout
    flaky.write_text(body.format("pass"), "utf-8")
    done = remember(model, out, "--memory", f"{flaky}:Memory")
    assert done.returncode == 0, done.stderr
    (result,) = json.loads((out / "probes" / "memory.json").read_text("utf-8"))["strategies"].values()
    assert result["n"] == len(rows)
    assert result["unscored"] == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--memory", "ful"), "unknown memory strategy 'ful'"),
        (("--memory", "full", "--length", "5k"), "unknown length '5k'"),
        (("--memory", "full", "--tasks", "DialogueBase"), "use --arcs"),
    ],
)
def test_bad_options_are_one_line(model, tmp_path, options, message):
    done = remember(model, tmp_path / "run", *options)
    assert done.returncode == 2
    assert re.fullmatch(rf"error: .*{message}.*", done.stderr.strip().splitlines()[-1])


def test_a_length_beyond_the_context_is_refused_before_anything_is_asked(tiny_model, tmp_path):
    options = ("--model", tiny_model, "--arcs", 1, "--memory", "full", "--length", "8k", "--out", tmp_path / "run")
    done = h2htalk("remember", *options)
    assert done.returncode == 2
    wanted = (
        r"error: the prompt of \S+ has \d{4,5} tokens and its answer up to \d+, but the context of \S+ has 2048; .*"
    )
    assert re.fullmatch(wanted, done.stderr.strip().splitlines()[-1])
    assert not list((tmp_path / "run").rglob("shards/*"))


@pytest.mark.slow
def test_other_options_of_a_strategy_are_refused(out, model, tmp_path):
    first = remember(model, tmp_path / "run", "--memory", "window", "--window-tokens", 50)
    assert first.returncode == 0, first.stderr
    done = remember(model, tmp_path / "run", "--memory", "window", "--window-tokens", 60)
    assert done.returncode == 2
    assert "window_tokens: 50 -> 60" in done.stderr


def test_always_abstaining_is_right_on_what_was_never_said_only(rows):
    result = measure_answers(rows, {row["id"]: "You never told me." for row in rows}, "arc")
    right = {family for family, figure in result["accuracy"].items() if figure and figure["value"] == 1.0}
    assert right == {"abstention"}
    assert result["invented"]["value"] == 0.0


def test_the_result_stands_in_the_report(out, tmp_path):
    run = scored_run(tmp_path / "run", chosen_rows("ItineraryResponse", 1), ["An answer."])
    shutil.copytree(out / "probes", run.path / "probes")
    markdown, page = (file.read_text("utf-8") for file in write_report(run.path))
    for text in (markdown, page):
        assert "Memory over weeks" in text
        assert "arc full minus none" in text
    assert page.count('aria-label="Right answers by tokens from the evidence') == 1


@pytest.mark.slow
def test_a_killed_command_continues_to_the_same_bytes(model, out, tmp_path):
    folder = tmp_path / "run"
    program = [sys.executable, "-c", "from h2htalk_metric.cli.main import main; main()"]
    options = ["--model", "m", "--base-url", model.url, "--arcs", NUM_ARCS, "--max-connections", 1]
    command = [*program, "remember", *options, "--memory", "full", "--out", folder]
    before = len(model.requests)
    with started([str(part) for part in command], tmp_path / "log") as job:
        job.wait_until(lambda: len(model.requests) >= before + 8)
        job.kill()
    answers = "probes/memory/arc/full/answers/1/predictions.jsonl"
    assert not (folder / answers).exists()
    asked = len(model.requests)
    done = remember(model, folder, "--memory", "full")
    assert done.returncode == 0, done.stderr
    assert len(model.requests) - asked < 2 * 12  # what was on disk is not sent again
    for file in (answers, "probes/memory/arc/full/contexts.jsonl"):
        assert (folder / file).read_bytes() == (out / file).read_bytes()
