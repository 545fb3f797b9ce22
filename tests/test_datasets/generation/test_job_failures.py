"""How jobs end: errors on one rank, signals, full disks, lost folders; each resumed to the same bytes."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from helpers.launch import accelerate, alone, arguments, free_port, lines_on_disk, started, torchrun
from helpers.paths import PROGRAMS

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation import RunFolder, Settings, generate
from h2htalk_datasets.generation.distributed.heartbeat import Heartbeat

FAILING = str(PROGRAMS / "fail_on_a_rank.py")
LAUNCHERS = {"alone": alone, "torchrun": torchrun, "accelerate": accelerate}


@pytest.fixture(scope="module")
def settings(tiny_model):
    return Settings(model=str(tiny_model), tasks="DialogueBase,ItineraryResponse", limit=12, batch_size=2)


@pytest.fixture(scope="module")
def uninterrupted(settings, tmp_path_factory):
    return generate(settings, tmp_path_factory.mktemp("runs") / "uninterrupted").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["torchrun", "accelerate"])
@pytest.mark.parametrize(
    ("method", "rank", "kind"), [("open", 0, "expected"), ("prepare", 1, "unexpected"), ("stream", 1, "expected")]
)
def test_a_rank_that_fails_ends_all_with_its_error(launcher, method, rank, kind, settings, tmp_path):
    program = [FAILING, str(rank), method, kind]
    command = [*LAUNCHERS[launcher](2, program), *arguments(settings, tmp_path / "run")]
    with started(command, tmp_path / "log") as job:
        assert job.ended_within(120) != 0
        ended = time.time()
    failed = float(re.search(r"FAILED AT ([\d.]+)", job.output)[1])
    assert ended - failed < 30, job.output
    line = "the cable is loose; plug it in" if kind == "expected" else "ZeroDivisionError: no cable"
    assert job.output.count(f"error (rank {rank}): {line}\n") == 1, job.output
    assert job.output.count("error (rank") == 1
    assert ("in fail\n" in job.output) == (kind == "unexpected")  # a traceback only for unexpected errors
    assert re.search(rf"rank +: {rank} .*\n +exitcode +: {2 if kind == 'expected' else 1} ", job.output), job.output


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["alone", "torchrun", "accelerate"])
def test_sigterm_ends_at_once_and_the_run_can_be_resumed(launcher, settings, uninterrupted, tmp_path):
    out = tmp_path / "run"
    command = [*LAUNCHERS[launcher](2), *arguments(settings, out)]
    with started(command, tmp_path / "log") as job:
        job.wait_until(lambda: lines_on_disk(out) >= 6)
        os.kill(job.process.pid, signal.SIGTERM)
        code = job.ended_within(25)  # at 30 s the launcher would kill it
    assert job.output.count("stopped by SIGTERM; finished answers are on disk; run the same command again") == 1
    if launcher == "alone":
        assert code == 143
        assert "Traceback" not in job.output
    else:  # the launcher has its own exit code
        assert code != 0
    before = lines_on_disk(out)
    assert before < len(uninterrupted.splitlines())
    assert generate(settings, out).read_bytes() == uninterrupted
    assert lines_on_disk(out) <= len(uninterrupted.splitlines()) + settings.batch_size


def test_sigint_is_one_line(settings, tmp_path):
    out = tmp_path / "run"
    longer = replace(settings, limit=200)
    with started([*alone(), *arguments(longer, out)], tmp_path / "log") as job:
        job.wait_until(lambda: lines_on_disk(out) >= 2)
        os.kill(job.process.pid, signal.SIGINT)
        assert job.ended_within(60) == 130
    assert "stopped by SIGINT" in job.output
    assert "Traceback" not in job.output


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(disk: Path, leave: int) -> Path:
    """Fill a disk up to some bytes; return the file that does it."""
    ballast = disk / "ballast"
    free = os.statvfs(disk)
    ballast.write_bytes(b"x" * (free.f_bavail * free.f_frsize - leave))
    return ballast


def test_a_full_disk_is_one_line_and_the_run_can_be_resumed(settings, uninterrupted, small_disk):
    out = small_disk / "run"
    ballast = fill(small_disk, 12 * 1024)  # enough for the manifest and some answers
    with pytest.raises(H2HTalkError) as error:
        generate(settings, out)
    assert re.search(
        r"cannot write .*jsonl: No space left on device. Fix this, then run the same command again", str(error.value)
    )
    before = lines_on_disk(out)
    assert 0 < before < len(uninterrupted.splitlines())
    for shard in (out / "shards").iterdir():
        assert shard.read_bytes().endswith(b"\n")  # no partial line
    ballast.unlink()
    assert generate(settings, out).read_bytes() == uninterrupted
    assert not (out / "set_aside.jsonl").exists()
    assert not list(out.glob(".*.part"))


def test_a_full_disk_at_the_merge_leaves_no_partial_file(settings, uninterrupted, small_disk):
    out = small_disk / "run"
    generate(settings, out).unlink()
    ballast = fill(small_disk, 0)
    with pytest.raises(H2HTalkError, match="No space left on device"):
        generate(settings, out)
    assert not list(out.glob(".*.part"))
    ballast.unlink()
    assert generate(settings, out).read_bytes() == uninterrupted


@pytest.mark.parametrize("deleted", ["shards", pytest.param(".", marks=pytest.mark.slow)])
def test_a_folder_that_is_deleted_is_one_line_and_the_run_can_be_resumed(deleted, settings, uninterrupted, tmp_path):
    out = tmp_path / "run"
    with started([*alone(), *arguments(settings, out)], tmp_path / "log") as job:
        job.wait_until(lambda: lines_on_disk(out) >= 2)
        shutil.rmtree(out / deleted)
        assert job.ended_within(60) == 2
    assert re.search(r"^error: cannot write .*jsonl: No such file or directory. Fix this", job.output, re.M)
    assert generate(settings, out).read_bytes() == uninterrupted


def test_a_limit_on_file_size_is_one_line(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.open({})
    script = (
        "import resource, sys; from h2htalk_datasets.generation import RunFolder;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300));"
        "shard = RunFolder(sys.argv[1]).shard(0);"
        "[shard.append([{'id': str(i), 'prediction': 'x' * 100}]) for i in range(9)]"
    )
    done = subprocess.run([sys.executable, "-c", script, str(folder.path)], capture_output=True, text=True, check=False)
    assert "H2HTalkError: cannot write" in done.stderr
    assert "File too large" in done.stderr
    assert list(folder.answers(["0", "1", "2"])[0]) == ["0", "1"]
    assert folder.answers(["0", "1", "2"])[1] == []  # no part of the third line remains


class Store(dict):
    """A store of torch.distributed in which only this rank beats."""

    def add(self, key, number):
        self[key] = self.get(key, 0) + number
        return self[key]

    def check(self, keys):
        return all(key in self for key in keys)


@pytest.fixture
def ready():
    return threading.Event()


@pytest.fixture
def lost_after(ready):
    """What rank 1 reports after so many seconds without a beat of rank 0, which has beaten `beats` times before."""

    def run(seconds, beats=1):
        heartbeat, store = Heartbeat(1, 2, ready), Store()
        for number in range(beats + int(2 * seconds) + 1):
            if number < beats:
                store.add("beat/0", 1)
            heartbeat.beat(store)
        return heartbeat.lost_peer()

    return run


def test_no_rank_is_lost_while_ranks_load(lost_after, ready):
    assert lost_after(20) is None and lost_after(119) is None
    assert lost_after(120).startswith("lost rank 0: silent for 120 s")
    ready.set()
    assert lost_after(59) is None
    assert lost_after(60).startswith("lost rank 0: silent for 60 s")


def test_a_rank_may_start_ten_minutes_late(lost_after):
    assert lost_after(599, beats=0) is None
    assert lost_after(600, beats=0).startswith("lost rank 0: it has not started within 600 s")


def test_a_rank_that_beats_again_is_not_lost(ready):
    heartbeat, store = Heartbeat(1, 2, ready), Store()
    for _ in range(1300):
        heartbeat.beat(store)
    assert "not started" in heartbeat.lost_peer()
    store.add("beat/0", 1)
    heartbeat.beat(store)
    assert heartbeat.lost_peer() is None


def test_a_rank_that_has_finished_is_not_lost(ready):
    ready.set()
    heartbeat, store = Heartbeat(1, 2, ready), Store({"beat/0": 1})
    for _ in range(200):
        heartbeat.beat(store)
    assert heartbeat.lost_peer().startswith("lost rank 0: silent")
    store["left/0"] = 1
    heartbeat.beat(store)
    assert heartbeat.lost_peer() is None


WATCHED = """
import contextlib, io, sys, time
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.distributed.watchdog import Watchdog
with Watchdog(), contextlib.redirect_stderr(io.StringIO()):
    print("ready", flush=True)
    {body}
"""


@pytest.mark.parametrize(
    ("body", "code", "line"),
    [
        ("open('/no/such/file')", 2, "error (rank 0): can't use /no/such/file: No such file or directory"),
        ("raise OSError('without a path')", 1, "error (rank 0): OSError: without a path"),
        ("raise H2HTalkError('choose another')", 2, "error (rank 0): choose another"),
    ],
)
def test_a_rank_ends_with_a_line_and_a_code_for_each_kind_of_error(body, code, line, tmp_path):
    """The line appears also while standard error is redirected, as it is while a model is read."""
    program = tmp_path / "program.py"
    program.write_text(WATCHED.format(body=body))
    environment = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    with started([sys.executable, str(program)], tmp_path / "log", **environment) as job:
        assert job.ended_within(60) == code, job.output
    assert f"{line}\n" in job.output
    assert ("Traceback" in job.output) == (code == 1)


@pytest.mark.slow
def test_a_job_that_was_suspended_continues(settings, uninterrupted, tmp_path):
    out = tmp_path / "run"
    with started([*torchrun(2), *arguments(settings, out)], tmp_path / "log", H2HTALK_SILENT_SECONDS="15") as job:
        job.wait_until(lambda: lines_on_disk(out) >= 2)
        launcher = psutil.Process(job.process.pid)
        processes = [launcher, *launcher.children(recursive=True)]
        for process in processes:
            process.suspend()
        time.sleep(20)  # longer than the silence after which a rank is lost
        for process in processes:
            process.resume()
        assert job.ended_within(200) == 0, job.output
    assert (out / "predictions.jsonl").read_bytes() == uninterrupted


@pytest.mark.slow
def test_ranks_end_when_their_launcher_is_killed(settings, uninterrupted, tmp_path):
    out = tmp_path / "run"
    with started([*torchrun(2), *arguments(settings, out)], tmp_path / "log") as job:
        job.wait_until(lambda: lines_on_disk(out) >= 2)
        ranks = psutil.Process(job.process.pid).children(recursive=True)
        job.process.kill()
        assert psutil.wait_procs(ranks, timeout=30)[1] == [], job.output
    assert job.output.count("error (rank") == 2  # without a launcher nothing ends the second rank before it prints
    assert generate(settings, out).read_bytes() == uninterrupted
