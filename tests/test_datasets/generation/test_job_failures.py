"""How jobs end: errors on one rank, signals, full disks, lost folders; each resumed to the same bytes."""

import contextlib
import io
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
from helpers.launch import accelerate, alone, arguments, lines_on_disk, started, torchrun
from helpers.paths import PROGRAMS

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation import RunFolder, Settings, generate
from h2htalk_datasets.generation.distributed import watchdog as failure

FAILING = str(PROGRAMS / "fail_on_a_rank.py")
LAUNCHERS = {"alone": alone, "torchrun": torchrun, "accelerate": accelerate}


@pytest.fixture(scope="module")
def settings(tiny_model):
    return Settings(model=str(tiny_model), tasks="DialogueBase,ItineraryResponse", limit=12, batch_size=2)


@pytest.fixture(scope="module")
def uninterrupted(settings, tmp_path_factory):
    return generate(settings, tmp_path_factory.mktemp("runs") / "whole").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["torchrun", "accelerate"])
@pytest.mark.parametrize(
    ("place", "rank", "how"), [("open", 0, "known"), ("prepare", 1, "unknown"), ("answer", 1, "known")]
)
def test_a_rank_that_fails_ends_all_with_its_error(launcher, place, rank, how, settings, tmp_path):
    program = [FAILING, str(rank), place, how]
    command = [*LAUNCHERS[launcher](2, program), *arguments(settings, tmp_path / "run")]
    with started(command, tmp_path / "log") as job:
        assert job.ended_within(120) != 0
        ended = time.time()
    failed = float(re.search(r"FAILED AT ([\d.]+)", job.output)[1])
    assert ended - failed < 30, job.output
    line = "the cable is loose; plug it in" if how == "known" else "ZeroDivisionError: no cable"
    assert job.output.count(f"error (rank {rank}): {line}\n") == 1, job.output
    assert job.output.count("error (rank") == 1
    assert ("in fail\n" in job.output) == (how == "unknown")  # a traceback only for what nobody foresaw
    assert re.search(rf"rank +: {rank} .*\n +exitcode +: {2 if how == 'known' else 1} ", job.output), job.output


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["alone", "torchrun", "accelerate"])
def test_sigterm_ends_at_once_and_the_run_goes_on(launcher, settings, uninterrupted, tmp_path):
    out = tmp_path / "run"
    command = [*LAUNCHERS[launcher](2), *arguments(settings, out)]
    with started(command, tmp_path / "log") as job:
        job.wait_until(lambda: lines_on_disk(out) >= 6)
        os.kill(job.process.pid, signal.SIGTERM)
        code = job.ended_within(25)  # at 30 s the launcher would kill it
    assert job.output.count("stopped by SIGTERM; finished batches are on disk, and the same command goes on") == 1
    if launcher == "alone":
        assert code == 143
        assert "Traceback" not in job.output
    else:  # the launcher's own code is its affair; it reports its ranks'
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
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(place)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk: Path, leave: int) -> Path:
    """Fill a disk up to some bytes; return the file that does it."""
    ballast = disk / "ballast"
    free = os.statvfs(disk)
    ballast.write_bytes(b"x" * (free.f_bavail * free.f_frsize - leave))
    return ballast


def test_a_full_disk_is_one_line_and_the_run_goes_on(settings, uninterrupted, small_disk):
    out = small_disk / "run"
    ballast = fill(small_disk, 12 * 1024)  # enough for the manifest and some batches
    with pytest.raises(H2HTalkError) as error:
        generate(settings, out)
    assert re.search(r"can't write .*jsonl: No space left on device; the same command goes on", str(error.value))
    before = lines_on_disk(out)
    assert 0 < before < len(uninterrupted.splitlines())
    for shard in (out / "shards").iterdir():
        assert shard.read_bytes().endswith(b"\n")  # nothing torn
    ballast.unlink()
    assert generate(settings, out).read_bytes() == uninterrupted
    assert not (out / "set_aside.jsonl").exists()
    assert not list(out.glob(".*.part"))


def test_a_full_disk_at_the_merge_leaves_no_part(settings, uninterrupted, small_disk):
    out = small_disk / "run"
    generate(settings, out).unlink()
    ballast = fill(small_disk, 0)
    with pytest.raises(H2HTalkError, match="No space left on device"):
        generate(settings, out)
    assert not list(out.glob(".*.part"))
    ballast.unlink()
    assert generate(settings, out).read_bytes() == uninterrupted


@pytest.mark.parametrize("lost", ["shards", "."])
def test_a_folder_that_vanishes_is_one_line_and_the_run_goes_on(lost, settings, uninterrupted, tmp_path):
    out = tmp_path / "run"
    with started([*alone(), *arguments(settings, out)], tmp_path / "log") as job:
        job.wait_until(lambda: lines_on_disk(out) >= 2)
        shutil.rmtree(out / lost)
        assert job.ended_within(60) == 2
    assert re.search(r"^error: can't write .*jsonl: No such file or directory; the same command", job.output, re.M)
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
    assert "H2HTalkError: can't write" in done.stderr
    assert "File too large" in done.stderr
    assert list(folder.answers(["0", "1", "2"])[0]) == ["0", "1"]
    assert folder.answers(["0", "1", "2"])[1] == []  # the third line, of which a part fitted, is gone whole


def test_the_line_is_said_also_while_a_model_is_read_quietly(capfd):
    with contextlib.redirect_stderr(io.StringIO()):
        failure._say("stopped by SIGTERM")
    assert capfd.readouterr().err.endswith("stopped by SIGTERM\n")


def test_nobody_is_lost_while_ranks_load(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(failure, "_met", threading.Event())
    pulse = failure._Pulse(1)
    pulse._beats = 1

    def after(seconds):  # since rank 0 gave its last sign
        pulse._missed = int(seconds / failure._BEAT) + 1
        return pulse.look()

    assert after(20) is None and after(110) is None
    assert after(120).startswith("lost rank 0: silent for 120 s")
    failure.ranks_have_met()
    assert after(14) is None
    assert after(15).startswith("lost rank 0: silent for 15 s")
    pulse._beats = 0  # its node starts late, or never
    assert after(590) is None
    assert after(600).startswith("lost rank 0: it has not begun for 600 s")


def test_a_rank_that_never_beats_is_missed(monkeypatch):
    class Store(dict):
        def add(self, key, number):
            self[key] = self.get(key, 0) + number
            return self[key]

        def check(self, keys):
            return False

    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(failure, "_STARTING_BEATS", 3)
    pulse, store = failure._Pulse(1), Store()
    for _ in range(3):
        pulse._beat(store)
    assert pulse.look() is None
    pulse._beat(store)
    assert "has not begun" in pulse.look()
    store.add("beat/0", 1)
    pulse._beat(store)
    assert pulse.look() is None and pulse._missed == 0


def test_a_path_that_cannot_be_used_ends_a_rank_as_it_ends_one_process(monkeypatch):
    def end(code, line, details=""):
        raise SystemExit(code, line, details)

    monkeypatch.setenv("WORLD_SIZE", "2")
    watch = failure.Watch()
    monkeypatch.setattr(watch, "_end", end)
    for error, code, line in (
        (FileNotFoundError(2, "No such file or directory", "/x"), 2, "can't use /x: No such file or directory"),
        (OSError("of no path"), 1, "OSError: of no path"),
    ):
        with pytest.raises(SystemExit) as ended:
            watch.__exit__(type(error), error, None)
        assert ended.value.args[:2] == (code, f"error (rank 0): {line}")


@pytest.mark.slow
def test_a_job_that_was_suspended_goes_on(settings, uninterrupted, tmp_path):
    out = tmp_path / "run"
    with started([*torchrun(2), *arguments(settings, out)], tmp_path / "log") as job:
        job.wait_until(lambda: lines_on_disk(out) >= 2)
        launcher = psutil.Process(job.process.pid)
        processes = [launcher, *launcher.children(recursive=True)]
        for process in processes:
            process.suspend()
        time.sleep(20)  # longer than the silence after which a rank is given up
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
    assert job.output.count("error (rank") == 2  # nobody is left to end the second before it speaks
    assert generate(settings, out).read_bytes() == uninterrupted


@pytest.mark.slow
def test_the_static_split_answers_the_same(settings, uninterrupted, tmp_path):
    out = tmp_path / "run"
    with started([*torchrun(2), *arguments(settings, out), "--split", "static"], tmp_path / "log") as job:
        assert job.ended_within(200) == 0, job.output
    assert (out / "predictions.jsonl").read_bytes() == uninterrupted
    shares = [sum(1 for _ in shard.open("rb")) for shard in (out / "shards").iterdir()]
    assert shares == [len(uninterrupted.splitlines()) // 2] * 2
