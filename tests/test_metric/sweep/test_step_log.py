"""The log of a sweep: which answers are of which options, what is done, time and failures."""

import json
import os
import time

import pytest

from h2htalk_metric.sweep.step_log import JOB, StepLog

RUN, OTHER = ["run", "--seed", "1"], ["run", "--seed", "2"]


def made(folder, name="a"):
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "run.json").write_text("{}")


def test_answers_are_of_the_options_that_created_the_folder(tmp_path):
    log = StepLog(tmp_path)
    assert not log.answers_are_of("a", RUN)
    log.started("a", "run", RUN)  # killed while it generated
    made(tmp_path)
    assert log.answers_are_of("a", RUN)
    log.started("a", "run", OTHER)
    log.ended("a", "run", 1, 2, "error: settings differ")
    assert log.answers_are_of("a", RUN) and not log.answers_are_of("a", OTHER)
    # An option that changes no answer, for instance of the connection.
    log.started("a", "run", OTHER)
    log.ended("a", "run", 1, 0)
    assert log.answers_are_of("a", OTHER)
    assert not log.answers_are_of("b", RUN)


def test_a_folder_that_was_deleted_is_new(tmp_path):
    log = StepLog(tmp_path)
    log.started("a", JOB, RUN)
    log.started("a", "run", OTHER)
    assert log.answers_are_of("a", OTHER) and not log.answers_are_of("a", RUN)


def test_judging_is_open_again_after_another_generation(tmp_path):
    log, judge = StepLog(tmp_path), ["judge", "x"]
    log.started("a", "judge", judge)
    log.ended("a", "judge", 1, 0)
    assert log.is_done("a", "judge", judge) and not log.is_done("a", "judge", ["judge", "y"])
    log.started("a", "score", ["score"])
    assert not log.is_done("a", "judge", judge)


def test_time_counts_every_attempt_and_the_last_failure_of_each_part_counts(tmp_path):
    log = StepLog(tmp_path)
    log.started("a", "run", RUN)
    log.ended("a", "run", 10, 2, "error: server down")
    assert log.totals("a").failure == "run: error: server down"
    log.started("a", "score", RUN)
    log.ended("a", "score", 5, 0)
    log.started("a", "judge", ["judge"])
    log.ended("a", "judge", 1, 2, "error: no key")
    log.ended("a", "board", 0, 0)
    totals = log.totals("a")
    assert (totals.seconds, totals.attempts, totals.failure) == (16, 3, "judge: error: no key")


def test_a_killed_attempt_lasts_until_its_last_answer_and_not_until_the_next_one(tmp_path):
    log, now = StepLog(tmp_path), time.time()
    made(tmp_path)
    lines = [
        {"entry": "a", "step": "run", "arguments": RUN, "started": now - 1000, "fresh": True},
        {"entry": "a", "step": "run", "arguments": RUN, "started": now - 300, "fresh": False},
    ]
    log.file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (tmp_path / "a" / "shards").mkdir()
    for file, moment in (("a/shards/1.jsonl", now - 900), ("a/shards/2.jsonl", now - 280), ("a.log", now - 290)):
        (tmp_path / file).write_text("{}\n")
        os.utime(tmp_path / file, (moment, moment))
    assert log.totals("a").seconds == pytest.approx(100 + 20, abs=0.1)
    log.ended("a", "run", 35, 0)
    assert log.totals("a").seconds == pytest.approx(100 + 35, abs=0.1)


def test_a_partial_line_of_a_killed_process_is_skipped(tmp_path):
    log = StepLog(tmp_path)
    log.ended("a", "run", 10, 0)
    with log.file.open("a") as file:
        file.write('{"entry": "a", "st')
    log.ended("a", "run", 5, 0)
    assert log.totals("a").seconds == 15
