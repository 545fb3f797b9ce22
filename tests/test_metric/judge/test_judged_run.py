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
from dataclasses import replace

import numpy as np
import pytest
from helpers.commands import h2htalk
from helpers.judge_scripts import (
    CRITERIA,
    TASKS,
    answer_first,
    block,
    by_content,
    make_run,
    refuses_temperature_0,
    verdict,
)
from helpers.servers import FAULTS, completion, faulty, nobody, scripted

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.judge.blend import blend, flagged
from h2htalk_metric.judge.budget import Budget
from h2htalk_metric.judge.judge import Judge, verdict_cache
from h2htalk_metric.judge.judge_items import judge_items
from h2htalk_metric.judge.judge_run import judge_run
from h2htalk_metric.judge.judged_run import read_judged
from h2htalk_metric.judge.judgement import valid_judgements
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.judge.rubric import load_rubric
from h2htalk_metric.judge.structured import StructuredChat
from h2htalk_metric.reports.report import write_report
from h2htalk_metric.review import Reviews
from h2htalk_metric.review.sampling import review_items
from h2htalk_metric.runs.scoring import read_scores, score_run

# A run


@pytest.fixture
def run(tmp_path):
    make_run(tmp_path / "run", each=3, answer=lambda record, i: f"{record['reference']} And so on, {i}.")
    return tmp_path / "run"


def judged(run, server, names=("m",), timeout=60.0, **options):
    judges = [Judge(StructuredChat(name, server.url, timeout=timeout, retries=8), **options) for name in names]
    return judge_run(run, judges, Panel(tuple(names), server=server.url), max_connections=4)


def lines_of(run):
    return [json.loads(line) for line in (run / "judgements.jsonl").read_text().splitlines()]


def scores_of(run):
    """The scores of the valid judgements by record and judge."""
    judgements = valid_judgements(run, judge_items(run), Panel.read(run))
    scored = [one for of_item in judgements.values() for one in of_item if one.unscored is None]
    return {(one.record_id, one.judge_model): one.scores for one in scored}


def test_faults_in_a_third_of_the_calls_change_no_verdict(run, tmp_path):
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
        for _ in range(4):  # the next run repeats failures
            if judged(run, proxy, timeout=1.0) == 0:
                break
        else:
            pytest.fail("still unscored after four runs")
    assert set(proxy.faults) == set(FAULTS)
    assert scores_of(run) == scores_of(tmp_path / "clean")
    assert len(scores_of(run)) == 9


def test_only_the_judged_tasks_are_judged_and_each_answer_once(run):
    with scripted(by_content) as server:
        assert judged(run, server) == 0
        assert len(server.requests) == 2 * 9
        assert judged(run, server) == 0
        assert len(server.requests) == 2 * 9
    lines = lines_of(run)
    assert Counter(line["rubric"] for line in lines) == dict.fromkeys(TASKS, 3)
    assert len({line["record_id"] for line in lines}) == 9
    for request in server.requests:
        assert "How you are with people" not in request["messages"][1]["content"]  # the principles aside


def test_a_changed_answer_is_judged_again_and_the_others_are_not(run):
    with scripted(by_content) as server:
        judged(run, server)
        file = run / "predictions.jsonl"
        first, *rest = file.read_text().splitlines()
        file.write_text("\n".join([json.dumps(json.loads(first) | {"prediction": "Another."}), *rest]) + "\n")
        assert len(scores_of(run)) == 8
        assert judged(run, server) == 0
    assert len(server.requests) == 2 * 9 + 2
    assert len(scores_of(run)) == 9


def test_a_judge_without_a_verdict_does_not_replace_the_panel(run):
    with scripted(by_content) as server:
        judged(run, server)
    before = scores_of(run)
    with nobody() as dead, pytest.raises(H2HTalkError, match="no answer from"):
        judge_run(run, [Judge(StructuredChat("typo", dead, retries=0))], Panel(("typo",), server=dead))
    with scripted(lambda r: "no" if r["model"] == "other" else verdict(1)) as server:
        assert judged(run, server, names=("other",)) == 9
        assert judged(run, server, names=("m", "other")) == 9
        assert scores_of(run) == before
        assert judged(run, server, names=("another",)) == 0
    assert Panel.read(run).judges == ("another",)


def test_two_servers_models_of_one_name_are_two_judges(run):
    with scripted(lambda r: verdict(5)) as one, scripted(lambda r: verdict(1)) as other:
        for server in (one, other):
            assert judged(run, server) == 0
            assert len(server.requests) == 2 * 9
    marks = {line["server"]: line["score"] for line in lines_of(run)}
    assert marks == {one.url: 5, other.url: 1}
    assert {mark for marks in scores_of(run).values() for mark in marks.values()} == {1}


def test_max_cost_stops_and_the_next_run_continues(run):
    def charged(request):  # the budget is exhausted after a few calls, in whatever order they run
        return completion(by_content(request)) | {"usage": {"prompt_tokens": 1000, "completion_tokens": 100}}

    with scripted(charged) as server:
        budget = Budget(1.0, 1.0, max_cost=0.012)
        num_open = judged(run, server, budget=budget)
        assert 0 < num_open < 9 and budget.exhausted
        assert budget.cost(budget.usage) <= 0.012
        assert all("unscored" not in line for line in lines_of(run))
        assert judged(run, server) == 0
    assert len(scores_of(run)) == 9


def test_after_a_kill_no_answer_is_judged_twice(tmp_path):
    make_run(tmp_path / "run", each=12)
    run = tmp_path / "run"

    def slowly(request):
        time.sleep(0.1)
        return by_content(request)

    with scripted(slowly) as server:
        command = [sys.executable, "-c", "from h2htalk_metric.cli.main import main; main()", "judge", str(run)]
        command += ["--judge", "m", "--base-url", server.url, "--max-connections", "2"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        deadline = time.monotonic() + 120
        file = run / "judgements.jsonl"
        while not file.exists() or file.read_bytes().count(b"\n") < 7:
            assert time.monotonic() < deadline and process.poll() is None, process.communicate()[1].decode()
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        finished = {line["record_id"] for line in lines_of(run)}
        before = len(server.requests)  # calls in flight may arrive later; none of them is of a finished item
        again = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert again.returncode == 0, again.stderr
    answers = {block({"messages": r["messages"]}, "ANSWER") for r in server.requests[:before]}
    prompts = Counter(r["messages"][1]["content"] for r in server.requests)
    assert len(prompts) == 2 * 36 and len(answers) < 36
    assert sum(count - 1 for count in prompts.values()) <= 2  # only what was in flight at the kill
    texts = {item.id: item.blocks["answer"] for item in judge_items(run)}
    later = {block(r, "ANSWER") for r in server.requests[before:]}
    assert not later & {texts[i] for i in finished}
    assert Counter(line["record_id"] for line in lines_of(run)) == dict.fromkeys(texts, 1)


# J


@pytest.mark.parametrize(
    ("composite", "judge_score", "alpha", "expected"),
    [
        (0.5, 4.0, 0.6, 3.1),  # 0.6 * 2.5 + 0.4 * 4 = 1.5 + 1.6
        (0.2, 5.0, 0.6, 2.6),  # 0.6 * 1 + 0.4 * 5
        (1.0, 5.0, 0.6, 5.0),
        (0.0, 0.0, 0.6, 0.0),
        (0.4, 3.0, 0.25, 2.75),  # 0.25 * 2 + 0.75 * 3
        (0.7, 1.0, 1.0, 3.5),
    ],
)
def test_eq_3(composite, judge_score, alpha, expected):
    assert blend(composite, judge_score, alpha) == pytest.approx(expected)


def test_eq_4_flags_below_tau_only():
    assert flagged(3.4999) and not flagged(3.5) and not flagged(3.0, tau=3.0)


@pytest.mark.parametrize(
    "values", [(1.2, 3, 0.6), (0.5, 5.1, 0.6), (0.5, 3, 2), (-0.1, 3, 0.6), (0.5, float("nan"), 0.6)]
)
def test_values_out_of_range_are_refused(values):
    with pytest.raises(H2HTalkError, match="must be in"):
        blend(*values)


@pytest.fixture
def scored(run):
    score_run(run, "demo")
    return run


def reviewed(run, marks):
    """People's marks: by record id the levels that two raters give to all criteria."""
    reviews = Reviews.create(run, review_items(run, count=9), {"seed": 0})
    for record_id, levels in marks.items():
        for rater, level in zip(("Ana", "Ben"), levels, strict=True):
            reviews.save(record_id, rater, dict.fromkeys(CRITERIA, level))


def test_a_judged_run_by_hand(scored):
    """Three items of each task: scores 4.5, 2, and none, because the judge fails; people score two items."""
    ids = [item.id for item in judge_items(scored)]

    def judge(request):
        number = int(re.search(r"And so on, (\d+)\.", block(request, "ANSWER"))[1]) % 3
        return [verdict(5) if answer_first(request) else verdict(4), verdict(2), "no"][number]

    with scripted(judge) as server:
        assert judged(scored, server) == 3
    assert "people" not in read_judged(scored).signature
    reviewed(scored, {ids[1]: (4, 5), ids[2]: (1, 1)})
    result = read_judged(scored)
    s = read_scores(scored).items.set_index("id")["composite"]
    rows = result.items.set_index("id")
    first, second, third = (rows.loc[ids[i]] for i in range(3))
    assert (first["judge_score"], first["position_bias"], first["judge_range"]) == (4.5, 1.0, 0.0)
    assert first["j"] == first["j_with_judge"] == pytest.approx(3.0 * s[ids[0]] + 1.8)  # 0.6 * 5 S + 0.4 * 4.5
    assert second["j_with_judge"] == pytest.approx(3.0 * s[ids[1]] + 0.8)
    assert second["j"] == pytest.approx(3.0 * s[ids[1]] + 1.8)  # people's 4.5 replaces 2; both are in the table
    assert (second["judge_score"], second["human_score"]) == (2.0, 4.5)
    assert np.isnan(third["judge_score"]) and "no valid verdict" in third["unscored"]
    assert third["j"] == pytest.approx(3.0 * s[ids[2]] + 0.4)  # people scored what the judge could not
    assert rows["flagged"].tolist() == [value < 3.5 for value in rows["j_with_judge"]]
    table = result.by_task().loc["ItineraryBasic"]
    assert (table["n"], table["with_j"], table["unscored"], table["reviewed"]) == (3, 3, 1, 2)
    assert table["judge_score"] == pytest.approx(3.25) and table["position_bias"] == pytest.approx(0.5)
    assert table["j"] == pytest.approx(np.mean([first["j"], second["j"], third["j"]]))
    assert {"judge": "m", "alpha": 0.6, "tau": 3.5, "people": 2}.items() <= result.signature.items()
    assert result.signature["judge_server"] == server.url
    assert result.signature["rubrics"] == {task: load_rubric(task).hash for task in TASKS}
    assert re.fullmatch(r"[0-9a-f]{12}", result.signature["judge_prompt"])
    assert {task: len(values) for task, values in result.values().items()} == {
        task: len(labels) for task, labels in result.clusters().items()
    }


def test_other_settings_do_not_mix(scored):
    with scripted(by_content) as server:
        judged(scored, server)
    Panel(("m",), num_explanations=2, server=server.url).write(scored)
    result = read_judged(scored)
    assert set(result.items["unscored"]) == {"m: judged with another answer, prompt, rubric or setting than now"}
    assert result.by_task()["unscored"].tolist() == [3, 3, 3] and result.judgements == []


def test_a_panel_has_mean_range_and_agreement(scored):
    scores = {"a": (5, 3, 1), "b": (4, 3, 0)}

    def judge(request):
        number = int(re.search(r"And so on, (\d+)\.", block(request, "ANSWER"))[1]) % 3
        return verdict(scores[request["model"]][number])

    with scripted(judge) as server:
        assert judged(scored, server, names=("a", "b")) == 0
    result = read_judged(scored)
    assert result.items["judge_score"].tolist() == [4.5, 3, 0.5] * 3
    assert result.items["judge_range"].tolist() == [1, 0, 1] * 3
    # By hand, for nine items: observed 1/n sum of 2 (a - b)^2 = 12/18; expected over all pairs of 18 values.
    values = [5, 3, 1] * 3 + [4, 3, 0] * 3
    expected = sum((x - y) ** 2 for x in values for y in values) / (18 * 17)
    assert result.panel_agreement()["score"] == pytest.approx(1 - (12 / 18) / expected)
    assert result.panel_agreement()["ItineraryBasic vivid"] is not None
    assert result.signature["judge"] == "a,b"


def test_a_panel_of_which_one_judge_failed_has_no_mean(scored):
    with scripted(lambda r: "no" if r["model"] == "b" else verdict(4)) as server:
        assert judged(scored, server, names=("a", "b")) == 9
    result = read_judged(scored)
    assert result.items["judge_score"].isna().all() and set(result.items["unscored"].str[:2]) == {"b:"}
    assert {one.judge_model for one in result.judgements} == {"a"}


def test_nobody_judged_and_nobody_reviewed(scored):
    assert read_judged(scored) is None
    reviewed(scored, {})
    assert read_judged(scored) is None


# A server that refuses temperature 0


def test_a_refused_temperature_0_falls_back_to_the_models_default_and_is_in_the_signature(scored):
    command = ["judge", scored, "--judge", "m"]
    with scripted(refuses_temperature_0) as server:
        done = h2htalk(*command, "--base-url", server.url)
        assert done.returncode == 0, done.stderr
        accepted = [request for request in server.requests if "temperature" not in request]
        assert len(accepted) == 2 * 9
        sent = len(server.requests)
        again = h2htalk(*command, "--base-url", server.url)
        assert again.returncode == 0, again.stderr
        assert len(server.requests) == sent  # the verdicts stay valid
    assert len(scores_of(scored)) == 9
    assert read_judged(scored).signature["judge_temperature"] == "default"
    assert "judge_temperature:default" in (scored / "report.md").read_text()


def test_judgements_at_temperature_0_and_at_the_default_do_not_mix(run):
    with scripted(by_content) as server:
        assert judged(run, server) == 0
    panel = Panel.read(run)
    assert panel.default_temperature == ()
    replace(panel, default_temperature=("m",)).write(run)
    assert scores_of(run) == {}


def test_another_run_finds_the_verdicts_at_the_default_in_the_cache(run, tmp_path):
    make_run(tmp_path / "other", each=3, answer=lambda record, i: f"{record['reference']} And so on, {i}.")
    cache = verdict_cache(tmp_path / "verdicts.sqlite")
    with scripted(refuses_temperature_0) as server:
        assert judged(run, server, cache=cache) == 0
        sent = len(server.requests)
        assert judged(tmp_path / "other", server, cache=cache) == 0
        assert len(server.requests) == sent
    assert Panel.read(tmp_path / "other").default_temperature == ("m",)
    assert scores_of(tmp_path / "other") == scores_of(run)


@pytest.mark.parametrize(
    "message",
    [
        "invalid temperature: only 1 is allowed for this model",
        "`temperature` may only be set to 1 when thinking is enabled",
        "temperature: Extra inputs are not permitted",
    ],
)
def test_other_words_for_a_refused_temperature(run, message):
    def refuses(request):
        return (400, {"error": {"message": message}}) if "temperature" in request else by_content(request)

    with scripted(refuses) as server:
        assert judged(run, server) == 0
    assert Panel.read(run).default_temperature == ("m",)


# The command


def test_dry_run_judge_report(scored):
    with scripted(by_content) as server:
        command = ["judge", scored, "--judge", "some[bold]/m", "--base-url", server.url]
        dry = h2htalk(*command, "--dry-run", "--price-in", "1", "--price-out", "2")
        assert dry.returncode == 0, dry.stderr
        assert "9 answers, 1 judges: 9 judgements to make, 18 calls" in dry.stdout
        tokens, new = map(int, re.search(r"about (\d+) prompt tokens and (\d+) new", dry.stdout).groups())
        assert new == 18 * (5 * 12 + 60)
        assert 18 * 1200 < tokens < 18 * 3500
        assert f"about {(tokens + 2 * new) / 1e6:.4f} at these prices" in dry.stdout
        assert not server.requests and not (scored / "judge.json").exists()
        done = h2htalk(*command, "--price-in", "1", "--price-out", "2", "--alpha", "0.5", "--tau", "3")
        assert done.returncode == 0, done.stderr
        assert "usage: 18 calls, 198 prompt tokens" in done.stdout and "cost 0.00" in done.stdout
        assert "judgements: 9/9" in done.stderr
        assert "J_judge" in done.stdout and "some[bold]/m" in done.stdout
    report = (scored / "report.md").read_text()
    assert "| ItineraryBasic | 3 | " in report
    assert "J = 0.5 S5 + 0.5 J_judge" in report
    assert "judge:some[bold]/m|rubrics:ItineraryBasic=" in report and "alpha:0.5|tau:3.0" in report
    again = h2htalk("report", scored)
    assert again.returncode == 0 and (scored / "report.md").read_text() == report


def test_people_alone_give_a_j_and_its_table_says_for_how_many(scored):
    reviews = Reviews.create(scored, review_items(scored, count=9), {"seed": 0})
    basic = [item.id for item in reviews.items.values() if item.task == "ItineraryBasic"]
    for item in basic[:2]:
        for rater in ("Ana", "Ben"):
            reviews.save(item, rater, dict.fromkeys(CRITERIA, 4))
    shown = h2htalk("report", scored)
    assert shown.returncode == 0, shown.stderr
    assert "J, 0 to 5, scored by people" in shown.stdout
    s5 = 5 * read_scores(scored).items.set_index("id")["composite"][basic[:2]].mean()
    report = (scored / "report.md").read_text()
    assert f"| ItineraryBasic | {s5:.2f} | - | {0.6 * s5 + 1.6:.2f} |" in report  # S5, J_judge, J
    assert "| ItineraryBasic | 3 | 2 |" in report  # n, with J
    assert "No judge scored this run" in report and "judge:none" in report


def test_a_config_of_one_item_has_no_interval_in_the_report(tmp_path):
    make_run(tmp_path / "run", each=1)
    score_run(tmp_path / "run", "demo")
    write_report(tmp_path / "run")
    report = (tmp_path / "run" / "report.md").read_text()
    assert "| - |" in report and "nan" not in report


def test_a_check_takes_no_dry_run():
    with scripted(by_content) as server:
        refused = h2htalk("judge", "--check", "--judge", "m", "--base-url", server.url, "--dry-run")
    assert (refused.returncode, server.requests) == (2, []) and "omit --dry-run" in refused.stderr


def test_a_dry_run_needs_no_key(run, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    dry = h2htalk("judge", run, "--judge", "gpt-4o", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "9 judgements to make, 18 calls" in dry.stdout


def test_without_judgements_the_report_has_no_j(scored):
    shown = h2htalk("report", scored)
    assert shown.returncode == 0
    assert "J_judge" not in shown.stdout + (scored / "report.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["judge", "--judge", "m"], "either a run folder or --check"),
        (["judge", "nowhere", "--judge", "m", "--base-url", "http://127.0.0.1:9/v1"], "nowhere is not a run folder"),
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
