"""`h2htalk sweep`: three models of which one fails, a kill and a resume, and one Slurm job per model."""

import json
import os
import subprocess
import sys
import time

import psutil
import pytest
from helpers.commands import h2htalk
from helpers.judge_scripts import by_content
from helpers.launch import free_port
from helpers.paths import ROOT
from helpers.servers import scripted
from helpers.slurm import slurm_environment

from h2htalk_metric.leaderboard.storage import Storage
from h2htalk_metric.sweep.models_file import read_models
from h2htalk_metric.sweep.slurm import write_job
from h2htalk_metric.sweep.sweep import Sweep

FEW = "defaults: {embedder: demo, limit: 6, tasks: ItineraryResponse, batch_size: 1}\n"


def models_file(folder, model, **others):
    entries = {"one": {"model": str(model)}, **others}
    lines = [json.dumps({"name": name, "bracket": "0-1B", **entry}) for name, entry in entries.items()]
    file = folder / "models.yaml"
    file.write_text(FEW + "models:\n" + "".join(f"  - {line}\n" for line in lines))
    return file


def steps(out, name):
    lines = [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()]
    return [line["step"] for line in lines if line["entry"] == name and "arguments" in line]


def summary(out):
    return {one["name"]: one for one in json.loads((out / "summary.json").read_text())}


@pytest.mark.slow
def test_a_model_that_fails_stops_no_other_and_is_tried_again(tiny_model, tmp_path):
    down = {"model": "x", "base_url": f"http://127.0.0.1:{free_port()}/v1", "timeout": 1}
    file = models_file(tmp_path, tiny_model, down=down, other={"model": str(tiny_model), "sap": "none"})
    out = tmp_path / "out"
    done = h2htalk("sweep", file, "--out", out)
    assert done.returncode == 1, done.stderr
    assert "[2/3] down: failed: run: error: no answer from http://127.0.0.1" in done.stdout
    assert {row.model for row in Storage(out / "board", allow_partial=True).rows()} == {"one", "other"}
    results = summary(out)
    assert [results[name]["is_scored"] for name in ("one", "down", "other")] == [True, False, True]
    assert results["one"]["seconds"] > 0 and results["one"]["prompt_tokens"] > results["other"]["prompt_tokens"] > 0
    assert "error: no answer" in results["down"]["failure"] and "error: no answer" in (out / "summary.md").read_text()
    assert "(one)" in (out / "compare.html").read_text()
    again = h2htalk("sweep", file, "--out", out)
    assert again.returncode == 1
    assert (steps(out, "one"), steps(out, "down")) == (["run"], ["run", "run"])
    # Without the model that fails, everything is done.
    assert h2htalk("sweep", file, "--out", out, "--only", "one,other").returncode == 0


@pytest.mark.slow
def test_a_killed_sweep_leaves_no_process_behind_and_continues(tiny_model, tmp_path):
    file, out = models_file(tmp_path, tiny_model), tmp_path / "out"
    command = [sys.executable, "-m", "h2htalk_metric.cli", "sweep", str(file), "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as sweep:
        while not any(file.stat().st_size for file in (out / "one" / "shards").glob("*.jsonl")):
            assert sweep.poll() is None
            time.sleep(0.01)
        children = psutil.Process(sweep.pid).children(recursive=True)
        sweep.kill()
    _, alive = psutil.wait_procs(children, timeout=60)
    assert children and not alive
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len((out / "one" / "predictions.jsonl").read_text().splitlines()) == 6
    assert summary(out)["one"]["seconds"] > 1


@pytest.mark.slow
def test_runs_are_judged_once_and_compared_by_j_and_a_model_may_have_several_processes(tiny_model, tmp_path):
    plans = {"model": str(tiny_model), "tasks": "ItineraryBasic", "limit": 2}
    file = models_file(tmp_path, tiny_model, one=plans, two={**plans, "sap": "none", "processes": 2})
    out = tmp_path / "out"
    with scripted(by_content) as server:
        command = ["sweep", file, "--out", out, "--judge", "j", "--base-url", server.url]
        done = h2htalk(*command, env=os.environ | {"OPENAI_API_KEY": "x"})
        assert done.returncode == 0, done.stdout + done.stderr
        num_requests = len(server.requests)
        assert h2htalk(*command, env=os.environ | {"OPENAI_API_KEY": "x"}).returncode == 0
    assert num_requests > 0 and len(server.requests) == num_requests
    assert (steps(out, "one"), steps(out, "two")) == (["run", "judge"], ["run", "judge"])
    assert {file.stem.rsplit("-", 1)[1] for file in (out / "two" / "shards").iterdir()} == {"rank0", "rank1"}
    assert "<h2>Judged</h2>" in (out / "compare.html").read_text()


@pytest.mark.slow
def test_one_slurm_job_per_model_generates_scores_and_reports(tiny_model, tmp_path):
    environment = slurm_environment(tmp_path)
    file = models_file(tmp_path, tiny_model, lost={"model": "no-such/model", "slurm": {"nodes": 1}})
    out = tmp_path / "out"
    command = ["sweep", file, "--out", out, "--submit"]
    done = h2htalk(*command, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "one: Submitted batch job 7, exit code 0" in done.stdout, (out / "one.log").read_text()
    options = (tmp_path / "jobs").read_text()
    assert "--job-name=h2htalk-one" in options and "--nodes=1" in options
    assert summary(out)["one"]["is_scored"] and steps(out, "one") == ["slurm", "score"]
    assert len((out / "one" / "predictions.jsonl").read_text().splitlines()) == 6
    (tmp_path / "jobs.queue").write_text("12\n")
    again = h2htalk(*command, env=environment, cwd=ROOT)
    assert "one: done" in again.stdout and "lost: already in the queue as job 12" in again.stdout
    assert "slurm: see lost.log" in h2htalk("sweep", file, "--out", out, "--only", "one").stdout.replace("\n", "")


def test_the_job_of_a_model_is_the_projects_job_file_and_what_follows(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    file = models_file(tmp_path, "org/x")
    (entry,) = read_models(file)
    job = write_job(Sweep(tmp_path), entry, [str(file), "--out", "a folder"])
    assert subprocess.run(["bash", "-n", str(job)], check=False).returncode == 0
    text = job.read_text()
    assert text.startswith("#!/bin/bash") and "#SBATCH --requeue" in text
    assert text.endswith(f"h2htalk sweep {file} --out 'a folder' --only one\n")


def test_submitting_without_slurm_or_outside_of_a_checkout_says_so(tmp_path):
    file = models_file(tmp_path, "org/x")
    outside = h2htalk("sweep", file, "--out", tmp_path / "out", "--submit", cwd=tmp_path)
    assert outside.returncode == 1 and "submit in the checkout" in outside.stdout


def test_a_name_that_is_not_in_the_file_is_refused(tmp_path):
    refused = h2htalk("sweep", models_file(tmp_path, "org/x"), "--only", "two", "--out", tmp_path / "out")
    assert refused.returncode == 2 and "no model is named 'two'" in refused.stderr
