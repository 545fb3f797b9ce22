"""The judge with a real server and a real (poor) model: verdicts or reasons, and no call twice."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest
from helpers.commands import h2htalk
from helpers.judge_scripts import CRITERIA, TASKS
from helpers.servers import faulty, llama

pytestmark = [
    pytest.mark.slow,
    pytest.mark.very_slow,
    pytest.mark.timeout(3000),  # a verdict of a rambling model takes a minute on two busy cores
    pytest.mark.skipif(not importlib.util.find_spec("llama_cpp"), reason="llama-cpp-python[server] is not installed"),
]


def lines_of(run):
    file = run / "judgements.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_a_demo_run_is_judged_killed_and_judged_to_its_end(tmp_path):
    run = tmp_path / "run"
    made = h2htalk(
        "run", "--model", "demo", "--embedder", "demo", "--tasks", ",".join(TASKS), "--limit", 1, "--out", run
    )
    assert made.returncode == 0, made.stderr
    with llama() as server, faulty(server.url, rate=0.0) as counting:
        judge = ["judge", run, "--judge", "smollm2", "--base-url", counting.url, "--max-connections", "1"]
        judge += ["--timeout", "400"]
        command = [sys.executable, "-c", "from h2htalk_metric.cli.main import main; main()", *map(str, judge)]
        killed = subprocess.Popen(command, start_new_session=True)
        deadline = time.monotonic() + 1200
        while not lines_of(run):
            assert time.monotonic() < deadline and killed.poll() is None
            time.sleep(0.1)
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
        done = h2htalk(*judge)
        assert done.returncode == 0, done.stderr
        lines = lines_of(run)
        assert len({line["record_id"] for line in lines}) == 3
        for line in lines:
            if "unscored" in line:
                assert line["unscored"]
            else:
                assert list(line["scores"]) == list(CRITERIA)
                assert all(0 <= mark <= 5 for mark in line["scores"].values())
        scored = {line["record_id"] for line in lines if "unscored" not in line}
        assert scored
        assert all(Counter(line["record_id"] for line in lines)[record_id] == 1 for record_id in scored)
        accepted = [r for r in counting.requests if r["response_format"]["type"] == "json_object"]
        twice = [n for n in Counter(r["messages"][1]["content"] for r in accepted).values() if n > 1]
        if len(scored) == 3:
            assert len(twice) <= 1  # the call in flight at the kill
            count = len(counting.requests)
            assert "usage: 0 calls" in h2htalk(*judge).stdout
            assert len(counting.requests) == count
    assert "J_judge" in (run / "report.md").read_text()
