"""Independent jobs divide a run through files of its folder: claims, ended jobs, complete runs."""

import json
import os
import time
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from helpers.commands import h2htalk
from helpers.launch import alone, arguments, lines_on_disk, prediction_ids, started

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation import Settings, generate
from h2htalk_datasets.generation.engines.base import Answer, Failure
from h2htalk_datasets.generation.run_folder.leases import LEASE_SECONDS, Leases, working_jobs

SETTINGS = Settings("m", "DialogueBase,ItineraryResponse", 40, jobs=3)


class Model:
    """Answers with the id of the record; ends, as if it was interrupted, or fails where it is told to."""

    def __init__(self, ends_after=None, fails=()):
        self._left, self._fails = ends_after, fails
        self.asked = []

    def identity(self):
        return {"name": "m", "revision": "1"}

    def prepare(self, prompts):
        return [1] * len(prompts)

    def stream(self, prompts, seed):
        for prompt in prompts:
            if self._left == len(self.asked):
                raise KeyboardInterrupt
            self.asked.append(prompt.id)
            yield prompt, Failure("no reason") if prompt.id in self._fails else Answer(prompt.id, "stop", 1, 1)


def make_old(file):
    old = time.time() - 10 * LEASE_SECONDS
    os.utime(file, (old, old))


def claims_of_ended_job(folder, units):
    """Claims of a job that was killed: its heartbeat stays, and is old."""
    with Leases(folder) as killed:
        assert all(killed.claim(unit) for unit in units)
    killed.heartbeat.touch()
    make_old(killed.heartbeat)


@pytest.fixture(scope="module")
def alone_in_one_job(tmp_path_factory):
    return generate(SETTINGS, tmp_path_factory.mktemp("runs") / "one", engine=Model()).read_bytes()


def test_a_unit_is_claimed_once(tmp_path):
    with Leases(tmp_path) as one, Leases(tmp_path) as other:
        assert one.claim(7)
        assert not other.claim(7) and not one.claim(7)
        assert other.claim(8)
        assert working_jobs(tmp_path, one.heartbeat) == 2
    assert not list((tmp_path / "leases").glob("*.heartbeat"))


@pytest.mark.parametrize("signed_off", [True, False])
def test_a_unit_of_an_ended_job_is_claimed_once_more(tmp_path, signed_off):
    if signed_off:
        with Leases(tmp_path) as ended:
            ended.claim(3)
    else:
        claims_of_ended_job(tmp_path, [3])
    with Leases(tmp_path) as one, Leases(tmp_path) as other:
        assert [one.claim(3), other.claim(3), one.claim(3)] == [True, False, False]


def test_a_claim_without_a_name_counts_for_as_long_as_a_heartbeat(tmp_path):
    with Leases(tmp_path) as job:
        file = tmp_path / "leases" / "unit-00005-0"
        file.touch()
        assert not job.claim(5)
        make_old(file)
        assert job.claim(5)


def test_three_jobs_in_turn_make_the_run_of_one(tmp_path, alone_in_one_job):
    engines = [Model(ends_after=11), Model(ends_after=30), Model()]
    for engine in engines[:2]:
        with pytest.raises(KeyboardInterrupt):
            generate(SETTINGS, tmp_path / "run", engine=engine)
        assert not (tmp_path / "run" / "predictions.jsonl").exists()
    file = generate(SETTINGS, tmp_path / "run", engine=engines[2])
    assert file.read_bytes() == alone_in_one_job
    assert sorted(identity for engine in engines for identity in engine.asked) == sorted(
        prediction_ids(file.read_bytes())
    )
    assert not (tmp_path / "run" / "leases").exists()
    again = Model()
    assert generate(SETTINGS, tmp_path / "run", engine=again).read_bytes() == alone_in_one_job
    assert again.asked == []


def test_two_jobs_at_once_divide_the_prompts(tmp_path, alone_in_one_job, capfd):
    """The second job runs, from start to end, while the first one is in the middle of its work."""
    second = Model()

    class First(Model):
        def stream(self, prompts, seed):
            for number, answered in enumerate(super().stream(prompts, seed)):
                if number == 10:
                    with pytest.raises(RuntimeError, match="waits"):
                        generate(SETTINGS, tmp_path / "run", engine=second)
                yield answered

    def wait(seconds):
        raise RuntimeError("it waits for the units of the first job")

    first = First()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("h2htalk_datasets.generation.jobs.time", SimpleNamespace(sleep=wait))
        file = generate(SETTINGS, tmp_path / "run", engine=first)
    assert file.read_bytes() == alone_in_one_job
    assert not set(first.asked) & set(second.asked)
    assert 10 < len(first.asked) < 20  # its last unit: the second job has answered all others meanwhile
    assert "answers: 80/80" in capfd.readouterr().err.splitlines()[-1]


def test_units_of_a_killed_job_are_answered_by_another(tmp_path, alone_in_one_job):
    with pytest.raises(KeyboardInterrupt):
        generate(SETTINGS, tmp_path / "run", engine=Model(ends_after=4))
    claims_of_ended_job(tmp_path / "run", [4, 5, 6])
    assert generate(SETTINGS, tmp_path / "run", engine=Model()).read_bytes() == alone_in_one_job


def test_a_prompt_without_an_answer_is_sent_again_by_the_next_job(tmp_path, alone_in_one_job):
    failing = prediction_ids(alone_in_one_job)[5]
    with pytest.raises(H2HTalkError, match="1 prompts have no answer, all other answers are on disk.*no reason"):
        generate(SETTINGS, tmp_path / "run", engine=Model(fails=[failing]))
    assert json.loads((tmp_path / "run" / "failures.jsonl").read_text())["id"] == failing
    second = Model()
    assert generate(SETTINGS, tmp_path / "run", engine=second).read_bytes() == alone_in_one_job
    assert second.asked == [failing]
    assert not (tmp_path / "run" / "failures.jsonl").exists()


def test_an_ordinary_job_and_independent_jobs_keep_out_of_each_others_way(tmp_path, alone_in_one_job, monkeypatch):
    ordinary = Settings("m", SETTINGS.tasks, SETTINGS.limit)
    folder = generate(ordinary, tmp_path / "run", engine=Model()).parent
    with Leases(folder), pytest.raises(H2HTalkError, match="1 independent jobs are at work .*join them with --jobs"):
        generate(ordinary, folder, engine=Model())
    assert generate(ordinary, folder, engine=Model()).read_bytes() == alone_in_one_job
    other = Settings("m", SETTINGS.tasks, 39, jobs=3)
    with pytest.raises(H2HTalkError, match=r"cannot resume .*dataset.limit: 40 -> 39"):
        generate(other, folder, engine=Model())


def test_a_launcher_and_the_command_that_scores_are_refused(tmp_path):
    with pytest.raises(H2HTalkError, match="--jobs is for independent processes; leave it out under torchrun"):
        generate(SETTINGS, tmp_path / "run", SimpleNamespace(world_size=2), engine=Model())
    refused = h2htalk("run", "--model", "demo", "--jobs", "2", "--out", tmp_path / "run")
    assert refused.returncode == 2 and "h2htalk score RUN" in refused.stderr


@pytest.mark.slow
def test_three_real_jobs_of_which_one_is_killed(tiny_model, tmp_path):
    settings = Settings(model=str(tiny_model), tasks="DialogueBase,ItineraryResponse", limit=60, batch_size=2)
    expected = generate(settings, tmp_path / "expected").read_bytes()
    out = tmp_path / "run"
    command = [*alone(), *arguments(settings, out), "--jobs", "3"]
    lease = {"H2HTALK_LEASE_SECONDS": "4"}
    with ExitStack() as stack:
        jobs = [stack.enter_context(started(command, tmp_path / f"log{n}", **lease)) for n in range(3)]
        for job in jobs:
            job.wait_until(lambda: len(list((out / "leases").glob("*.heartbeat"))) == 3 or lines_on_disk(out) > 3)
        jobs[0].wait_until(lambda: lines_on_disk(out) > 10)
        jobs[0].kill()
        for job in jobs[1:]:
            assert job.ended_within(300) == 0, job.output
    assert (out / "predictions.jsonl").read_bytes() == expected
    assert not (out / "leases").exists() or not list((out / "leases").glob("*.heartbeat"))
