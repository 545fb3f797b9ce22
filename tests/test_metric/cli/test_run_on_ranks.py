"""`h2htalk run` under torchrun: all ranks generate, only rank 0 scores and reports."""

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from helpers.commands import h2htalk, run
from helpers.launch import free_port, started, torchrun, torchrun_node

H2HTALK = str(Path(sys.executable).with_name("h2htalk"))


def options(model, out, embedder="demo"):
    few = ["--tasks", "ItineraryResponse", "--limit", "4", "--batch-size", "1"]
    return ["run", "--model", str(model), *few, "--embedder", embedder, "--out", str(out)]


def test_only_rank_0_scores_and_reports(tiny_model, tmp_path):
    done = run(*torchrun(2, [H2HTALK]), *options(tiny_model, tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(h2htalk("report", tmp_path / "run").stdout) == 1
    assert done.stdout.count("│ Overall ") == 1
    assert done.stdout.count("predictions:") == 1


@pytest.mark.slow
def test_a_node_with_its_own_disk_ends_with_code_0_and_scores_nothing(tiny_model, tmp_path):
    port, outs = free_port(), [tmp_path / "first", tmp_path / "second"]
    with ExitStack() as stack:
        jobs = [
            stack.enter_context(
                started([*torchrun_node(node, 2, port, [H2HTALK]), *options(tiny_model, out)], tmp_path / f"log{node}")
            )
            for node, out in enumerate(outs)
        ]
        for job in jobs:
            assert job.ended_within(400) == 0, job.output
    assert [(out / "score.json").exists() for out in outs] == [True, False]
    assert [(out / "predictions.jsonl").exists() for out in outs] == [True, False]


def test_an_embedder_that_cannot_be_loaded_ends_all_ranks_before_they_generate(tiny_model, tmp_path):
    done = run(*torchrun(2, [H2HTALK]), *options(tiny_model, tmp_path / "run", embedder="nobody/nothing"))
    assert done.returncode != 0
    assert done.stderr.count("the embedder 'nobody/nothing'") == 1, done.stderr
    assert not (tmp_path / "run").exists()
