"""The judge with a real server and a real (poor) model: verdicts or reasons, and nothing asked twice."""

import importlib.util
import json

import pytest
from conftest import h2htalk
from servers import llama

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not importlib.util.find_spec("llama_cpp"), reason="llama-cpp-python[server] is not installed"),
]

TASKS = "ItineraryBasic,ItineraryMiddle,ItineraryAdvanced"


def lines_of(run):
    return [json.loads(line) for line in (run / "judgements.jsonl").read_text().splitlines()]


def test_every_item_ends_with_a_verdict_or_a_reason(tmp_path):
    run = tmp_path / "run"
    made = h2htalk("run", "--model", "demo", "--embedder", "demo", "--tasks", TASKS, "--limit", "1", "--out", run)
    assert made.returncode == 0, made.stderr
    with llama() as server:
        ask = ["judge", run, "--judge", "smollm2", "--base-url", server.url, "--concurrency", "2"]
        done = h2htalk(*ask)
        assert done.returncode == 0, done.stderr
        lines = lines_of(run)
        assert len(lines) == 3
        for line in lines:
            if "unscored" in line:
                assert line["unscored"] and "raw" in line
            else:
                assert all(0 <= mark <= 5 for mark in line["verdict"].values()) and len(line["verdict"]) == 5
        assert any("score" in line for line in lines)
        again = h2htalk(*ask)
        failed = sum("unscored" in line for line in lines)
        assert f"asked: {0 if not failed else ''}" in again.stdout
        assert len(lines_of(run)) == 3 + failed  # what has a verdict is not asked again
    assert "J_judge" in (run / "report.md").read_text()
