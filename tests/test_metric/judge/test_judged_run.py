"""A run that is judged over a real local server: faults, resume, a panel, J, the command."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import numpy as np
import pytest
from helpers.commands import h2htalk
from helpers.judge_scripts import CRITERIA, TASKS, answer_first, block, by_content, make_run, verdict
from helpers.servers import FAULTS, completion, faulty, nobody, scripted

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.judge.blend import blend, flagged
from h2htalk_metric.judge.cost import Purse
from h2htalk_metric.judge.items import items_of
from h2htalk_metric.judge.judged_run import JudgedRun
from h2htalk_metric.judge.marking import Judge, item_key, server_of
from h2htalk_metric.judge.rubric import load_rubric
from h2htalk_metric.judge.run_judgements import Panel, append_judgement, judge_run, standing
from h2htalk_metric.judge.structured import StructuredChat
from h2htalk_metric.reports.run_report import markdown
from h2htalk_metric.review import Reviews
from h2htalk_metric.review.drawing import items_of_run
from h2htalk_metric.runs.scoring import RunScores, score_run

# A run


@pytest.fixture
def run(tmp_path):
    make_run(tmp_path / "run", each=3, answer=lambda record, i: f"{record['reference']} And so on, {i}.")
    return tmp_path / "run"


def judged(run, server, names=("m",), timeout=60.0, **options):
    judges = [Judge(StructuredChat(name, server.url, timeout=timeout, retries=8), **options) for name in names]
    return judge_run(run, judges, Panel(tuple(names), server=server.url), in_flight=4)


def lines_of(run):
    return [json.loads(line) for line in (run / "judgements.jsonl").read_text().splitlines()]


def verdicts_of(run):
    lines = standing(run, items_of(run), Panel.read(run))
    return {place: line["verdict"] for place, line in lines.items() if "verdict" in line}


def test_a_third_of_calls_spoiled_and_the_verdicts_are_the_same(run, tmp_path):
    make_run(tmp_path / "clean", each=3, answer=lambda record, i: f"{record['reference']} And so on, {i}.")
    wrong = itertools.cycle([*[None] * 9, verdict(7), '{"vivid": 3}'])
    lock = threading.Lock()

    def at_times_no_verdict(request):
        with lock:
            spoiled = next(wrong)
        return spoiled or by_content(request)

    with scripted(by_content) as server:
        assert judged(tmp_path / "clean", server) == 0
    with scripted(at_times_no_verdict) as server, faulty(server.url, 0.3, seed=2) as proxy:
        for _ in range(4):  # failures are asked again by the next run
            if judged(run, proxy, timeout=1.0) == 0:
                break
        else:
            pytest.fail("still unscored after four runs")
    assert set(proxy.faults) == set(FAULTS)
    assert verdicts_of(run) == verdicts_of(tmp_path / "clean")
    assert len(verdicts_of(run)) == 9


def test_only_the_judged_tasks_are_asked_and_nothing_twice(run):
    with scripted(by_content) as server:
        assert judged(run, server) == 0
        assert len(server.asked) == 2 * 9
        assert judged(run, server) == 0
        assert len(server.asked) == 2 * 9
    lines = lines_of(run)
    assert Counter(line["rubric"] for line in lines) == dict.fromkeys(TASKS, 3)
    assert len({line["id"] for line in lines}) == 9
    for request in server.asked:
        assert "How you are with people" not in request["messages"][1]["content"]  # the principles aside


def test_a_changed_answer_is_judged_anew_and_others_stand(run):
    with scripted(by_content) as server:
        judged(run, server)
        file = run / "predictions.jsonl"
        first, *rest = file.read_text().splitlines()
        file.write_text("\n".join([json.dumps(json.loads(first) | {"prediction": "Another."}), *rest]) + "\n")
        assert len(verdicts_of(run)) == 8
        assert judged(run, server) == 0
    assert len(server.asked) == 2 * 9 + 2
    assert len(verdicts_of(run)) == 9


def test_a_judge_that_says_nothing_of_use_takes_no_others_place(run):
    with scripted(by_content) as server:
        judged(run, server)
    before = verdicts_of(run)
    with nobody() as dead, pytest.raises(H2HTalkError, match="no answer from"):
        judge_run(run, [Judge(StructuredChat("typo", dead, retries=0))], Panel(("typo",), server=dead))
    with scripted(lambda r: "no" if r["model"] == "other" else verdict(1)) as server:
        assert judged(run, server, names=("other",)) == 9
        assert judged(run, server, names=("m", "other")) == 9
        assert verdicts_of(run) == before
        assert judged(run, server, names=("another",)) == 0
    assert Panel.read(run).judges == ("another",)


def test_two_servers_models_of_one_name_are_two_judges(run):
    with scripted(lambda r: verdict(5)) as one, scripted(lambda r: verdict(1)) as other:
        for server in (one, other):
            assert judged(run, server) == 0
            assert len(server.asked) == 2 * 9
    marks = {line["server"]: line["score"] for line in lines_of(run)}
    assert marks == {one.url: 5, other.url: 1}
    assert {mark for marks in verdicts_of(run).values() for mark in marks.values()} == {1}


def test_judgements_of_before_servers_were_kept_still_stand(run):
    """What was written for OpenAI's own server, and by earlier versions for any, names none."""
    items = items_of(run)
    for item in items:
        line = {"id": item.id, "judge": "m", "key": item_key(item, "m", 0, 0), "verdict": {}}
        append_judgement(run, line)
    (run / "judge.json").write_text('{"judges": ["m"], "evidence": 0, "seed": 0, "alpha": 0.6, "tau": 3.5}')
    assert len(verdicts_of(run)) == 9
    assert server_of(None) is server_of("https://api.openai.com/v1") is None
    assert server_of("http://me:word@host:8000/v1?key=1") == "http://host:8000/v1"


def test_torn_and_foreign_lines_do_no_harm(run):
    with scripted(by_content) as server:
        judged(run, server)
        file = run / "judgements.jsonl"
        before = verdicts_of(run)
        file.write_bytes(file.read_bytes()[:-30])  # killed while writing
        append_judgement(run, {"id": "x", "judge": "m", "key": "0"})
        assert len(verdicts_of(run)) == 8
        assert judged(run, server) == 0
    assert verdicts_of(run) == before
    assert len(server.asked) == 2 * 9 + 2


def test_max_cost_stops_cleanly_and_the_next_run_goes_on(run):
    def charged(request):  # so much that the purse empties also where calls go one after the other
        return completion(by_content(request)) | {"usage": {"prompt_tokens": 1000, "completion_tokens": 100}}

    with scripted(charged) as server:
        purse = Purse(1.0, 1.0, max_cost=0.012)
        left = judged(run, server, purse=purse)
        assert 0 < left < 9 and purse.empty
        assert purse.cost(purse.spent) <= 0.012
        assert all("unscored" not in line for line in lines_of(run))
        assert judged(run, server) == 0
    assert len(verdicts_of(run)) == 9


def test_kill_nine_and_resume_asks_no_item_twice(tmp_path):
    make_run(tmp_path / "run", each=12)
    run = tmp_path / "run"

    def slowly(request):
        time.sleep(0.1)
        return by_content(request)

    with scripted(slowly) as server:
        command = [sys.executable, "-c", "from h2htalk_metric.cli.main import main; main()", "judge", str(run)]
        command += ["--judge", "m", "--base-url", server.url, "--concurrency", "2"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        deadline = time.monotonic() + 120
        file = run / "judgements.jsonl"
        while not file.exists() or file.read_bytes().count(b"\n") < 7:
            assert time.monotonic() < deadline and process.poll() is None, process.communicate()[1].decode()
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        time.sleep(0.5)  # what was in flight reaches the server's list
        finished = {line["id"] for line in lines_of(run)}
        before = len(server.asked)
        again = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert again.returncode == 0, again.stderr
    answers = {block({"messages": r["messages"]}, "ANSWER") for r in server.asked[:before]}
    asked = Counter(r["messages"][1]["content"] for r in server.asked)
    assert len(asked) == 2 * 36 and len(answers) < 36
    assert sum(count - 1 for count in asked.values()) <= 2  # only what was in flight at the kill
    texts = {item.id: item.blocks["answer"] for item in items_of(run)}
    later = {block(r, "ANSWER") for r in server.asked[before:]}
    assert not later & {texts[i] for i in finished}
    assert Counter(line["id"] for line in lines_of(run)) == dict.fromkeys(texts, 1)


# J


@pytest.mark.parametrize(
    ("composite", "judge", "alpha", "expected"),
    [
        (0.5, 4.0, 0.6, 3.1),  # 0.6 * 2.5 + 0.4 * 4 = 1.5 + 1.6
        (0.2, 5.0, 0.6, 2.6),  # 0.6 * 1 + 0.4 * 5
        (1.0, 5.0, 0.6, 5.0),
        (0.0, 0.0, 0.6, 0.0),
        (0.4, 3.0, 0.25, 2.75),  # 0.25 * 2 + 0.75 * 3
        (0.7, 1.0, 1.0, 3.5),
    ],
)
def test_eq_3(composite, judge, alpha, expected):
    assert blend(composite, judge, alpha) == pytest.approx(expected)


def test_eq_4_flags_below_tau_only():
    assert flagged(3.4999) and not flagged(3.5) and not flagged(3.0, tau=3.0)


@pytest.mark.parametrize(
    "values", [(1.2, 3, 0.6), (0.5, 5.1, 0.6), (0.5, 3, 2), (-0.1, 3, 0.6), (0.5, float("nan"), 0.6)]
)
def test_values_out_of_range_are_refused(values):
    with pytest.raises(H2HTalkError, match="must lie in"):
        blend(*values)


@pytest.fixture
def scored(run):
    score_run(run, "demo")
    return run


def test_a_judged_run_by_hand(scored):
    """Three items of each task: marks of 4.5, of 2, and none, for the judge fails; two have a person's score."""
    ids = [item.id for item in items_of(scored)]

    def judge(request):
        number = int(re.search(r"And so on, (\d+)\.", block(request, "ANSWER"))[1]) % 3
        return [verdict(5) if answer_first(request) else verdict(4), verdict(2), "no"][number]

    with scripted(judge) as server:
        assert judged(scored, server) == 3
    scores = RunScores.read(scored)
    result = JudgedRun.read(scored, scores, human={ids[1]: 4.5, ids[2]: 1.0})
    s = scores.items.set_index("id")["composite"]
    rows = result.items.set_index("id")
    first, second, third = (rows.loc[ids[i]] for i in range(3))
    assert (first["judge"], first["gap"], first["spread"]) == (4.5, 1.0, 0.0)
    assert first["j"] == first["j_judge"] == pytest.approx(3.0 * s[ids[0]] + 1.8)  # 0.6 * 5 S + 0.4 * 4.5
    assert second["j_judge"] == pytest.approx(3.0 * s[ids[1]] + 0.8)
    assert second["j"] == pytest.approx(3.0 * s[ids[1]] + 1.8)  # the person's 4.5 in place of 2; both are kept
    assert (second["judge"], second["human"]) == (2.0, 4.5)
    assert np.isnan(third["judge"]) and "no valid verdict" in third["unscored"]
    assert third["j"] == pytest.approx(3.0 * s[ids[2]] + 0.4)  # a person marked what the judge could not
    assert rows["flagged"].tolist() == [value < 3.5 for value in rows["j_judge"]]
    table = result.by_task().loc["ItineraryBasic"]
    assert (table["n"], table["unscored"], table["reviewed"]) == (3, 1, 2)
    assert result.signature["people"] == 2 and "people" not in JudgedRun.read(scored, scores, human={}).signature
    assert table["judge"] == pytest.approx(3.25) and table["gap"] == pytest.approx(0.5)
    assert table["j"] == pytest.approx(np.mean([first["j"], second["j"], third["j"]]))
    assert {"judge": "m", "alpha": 0.6, "tau": 3.5, "judge_server": server.url}.items() <= result.signature.items()
    assert result.signature["rubrics"] == {task: load_rubric(task).hash for task in TASKS}
    assert re.fullmatch(r"[0-9a-f]{12}", result.signature["judge_prompt"])


def test_other_settings_do_not_mix(scored):
    with scripted(by_content) as server:
        judged(scored, server)
    Panel(("m",), evidence=2).write(scored)
    result = JudgedRun.read(scored, RunScores.read(scored), {})
    assert set(result.items["unscored"]) == {"m: not asked yet"}
    assert result.by_task()["unscored"].tolist() == [3, 3, 3]


def test_a_panel_has_mean_spread_and_agreement(scored):
    marks = {"a": (5, 3, 1), "b": (4, 3, 0)}

    def judge(request):
        number = int(re.search(r"And so on, (\d+)\.", block(request, "ANSWER"))[1]) % 3
        return verdict(marks[request["model"]][number])

    with scripted(judge) as server:
        assert judged(scored, server, names=("a", "b")) == 0
    result = JudgedRun.read(scored, RunScores.read(scored), {})
    assert result.items["judge"].tolist() == [4.5, 3, 0.5] * 3
    assert result.items["spread"].tolist() == [1, 0, 1] * 3
    # By hand, for nine items: observed 1/n sum of 2 (a - b)^2 = 12/18; expected over all pairs of 18 values.
    values = [5, 3, 1] * 3 + [4, 3, 0] * 3
    expected = sum((x - y) ** 2 for x in values for y in values) / (18 * 17)
    assert result.panel_agreement()["score"] == pytest.approx(1 - (12 / 18) / expected)
    assert result.panel_agreement()["ItineraryBasic vivid"] is not None
    assert result.signature["judge"] == "a,b"


def test_a_panel_of_which_one_failed_has_no_mean(scored):
    with scripted(lambda r: "no" if r["model"] == "b" else verdict(4)) as server:
        assert judged(scored, server, names=("a", "b")) == 9
    result = JudgedRun.read(scored, RunScores.read(scored), {})
    assert result.items["judge"].isna().all() and set(result.items["unscored"].str[:2]) == {"b:"}


# The command


def test_dry_run_judge_report(scored):
    with scripted(by_content) as server:
        ask_it = ["judge", scored, "--judge", "some[bold]/m", "--base-url", server.url]
        dry = h2htalk(*ask_it, "--dry-run", "--price-in", "1", "--price-out", "2")
        assert dry.returncode == 0, dry.stderr
        assert "9 answers, 1 judges: 9 judgements to make, 18 calls" in dry.stdout
        tokens, new = map(int, re.search(r"about (\d+) prompt tokens and (\d+) new", dry.stdout).groups())
        assert new == 18 * (5 * 12 + 60)
        assert 18 * 1200 < tokens < 18 * 3500
        assert f"about {(tokens + 2 * new) / 1e6:.4f} at these prices" in dry.stdout
        assert not server.asked and not (scored / "judge.json").exists()
        done = h2htalk(*ask_it, "--price-in", "1", "--price-out", "2", "--alpha", "0.5", "--tau", "3")
        assert done.returncode == 0, done.stderr
        assert "asked: 18 calls, 198 prompt tokens" in done.stdout and "cost 0.00" in done.stdout
        assert "judgements: 9/9" in done.stderr
        assert "J_judge" in done.stdout and "some[bold]/m" in done.stdout
    report = (scored / "report.md").read_text()
    assert "| ItineraryBasic | 3 | " in report
    assert "J = 0.5 S5 + 0.5 J_judge" in report
    assert "judge:some[bold]/m|rubrics:ItineraryBasic=" in report and "alpha:0.5|tau:3.0" in report
    again = h2htalk("report", scored)
    assert again.returncode == 0 and (scored / "report.md").read_text() == report


def test_people_alone_give_a_j_and_its_table_says_of_how_many(scored):
    reviews = Reviews.create(scored, items_of_run(scored, count=9), {"seed": 0})
    basic = [item.id for item in reviews.items.values() if item.task == "ItineraryBasic"]
    for item in basic[:2]:
        for rater in ("Ana", "Ben"):
            reviews.save(item, rater, dict.fromkeys(CRITERIA, 4))
    shown = h2htalk("report", scored)
    assert shown.returncode == 0, shown.stderr
    assert "J, 0 to 5, by people, no judge asked" in shown.stdout
    s5 = 5 * RunScores.read(scored).items.set_index("id")["composite"][basic[:2]].mean()
    report = (scored / "report.md").read_text()
    assert f"| ItineraryBasic | 3 | 2 | {s5:.2f} | - | {0.6 * s5 + 1.6:.2f} (" in report
    assert "No judge was asked" in report and "judge:none" in report


def test_a_config_of_one_item_has_no_interval_in_the_report(tmp_path):
    make_run(tmp_path / "run", each=1)
    told = markdown(score_run(tmp_path / "run", "demo"))
    assert "| - |" in told and "nan" not in told


def test_a_check_always_asks_so_it_takes_no_dry_run():
    with scripted(by_content) as server:
        refused = h2htalk("judge", "--check", "--judge", "m", "--base-url", server.url, "--dry-run")
    assert (refused.returncode, server.asked) == (2, []) and "takes no --dry-run" in refused.stderr


def test_a_dry_run_needs_no_key(run, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    dry = h2htalk("judge", run, "--judge", "gpt-4o", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "9 judgements to make, 18 calls" in dry.stdout


def test_without_judgements_the_report_is_as_it_was(scored):
    shown = h2htalk("report", scored)
    assert shown.returncode == 0
    assert "J_judge" not in shown.stdout + (scored / "report.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["judge", "--judge", "m"], "either a run folder or --check"),
        (["judge", "nowhere", "--judge", "m", "--base-url", "http://127.0.0.1:9/v1"], "nowhere is no run folder"),
        (["judge", "nowhere", "--judge", "m", "--base-url", "localhost:8000"], "--base-url must look like"),
        (["judge", "nowhere", "--judge", "m"], "set OPENAI_API_KEY"),
        (["judge", "nowhere", "--judge", "m", "--max-cost", "1"], "--max-cost needs --price-in"),
    ],
)
def test_wrong_input_is_one_line(arguments, complaint, tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    refused = h2htalk(*arguments, cwd=tmp_path)
    assert refused.returncode == 2
    assert complaint in refused.stderr and "Traceback" not in refused.stderr
