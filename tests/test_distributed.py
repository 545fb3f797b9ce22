"""Scoring over two real processes."""

import json
import sys
from pathlib import Path

import pytest
from conftest import run

from h2htalk_metric import score

SCRIPT = str(Path(__file__).with_name("score_on_ranks.py"))
LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", "29547", SCRIPT]


def on_two_ranks(parts):
    done = run(*LAUNCH, json.dumps(parts))
    lines = [line for line in done.stdout.splitlines() if line.startswith("RANK ")]
    assert len(lines) == 2, done.stderr[-3000:]
    return [result for _, result in sorted(json.loads(line.removeprefix("RANK ")) for line in lines)]


def test_two_ranks_score_as_one_process_does():
    parts = [
        [["we walk home", "tea", ""], ["we walk home now", "a boat", "x y"]],
        [["good night"], ["good night, Ana"]],
    ]
    whole = score([*parts[0][0], *parts[1][0]], [*parts[0][1], *parts[1][1]], embedder="demo").rows()
    for rows in on_two_ranks(parts):
        for mine, alone in zip(rows, whole, strict=True):
            assert mine == pytest.approx(alone, abs=1e-6)


def test_one_ranks_fault_reaches_both():
    assert on_two_ranks([[["a"], ["b"]], [["a"], []]]) == ["rank 1 has 1 predictions but 0 references"] * 2
