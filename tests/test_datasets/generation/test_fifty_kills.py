"""Fifty runs killed with SIGKILL at random moments and resumed with another number of processes."""

import random
import shutil
import time

import pytest
from helpers.launch import arguments, free_port, lines_on_disk, prediction_ids

from h2htalk_datasets.generation import Settings, generate
from h2htalk_datasets.generation.requests import chosen_rows

RUNS, SEED = 50, 20250703


@pytest.fixture(scope="module")
def settings(tiny_model):
    return Settings(model=str(tiny_model), tasks="DialogueBase,RecollectionRefinement", limit=12, batch_size=2)


@pytest.fixture(scope="module")
def uninterrupted(settings, tmp_path_factory):
    return generate(settings, tmp_path_factory.mktemp("runs") / "uninterrupted").read_bytes()


def kill_at_random(ranks, generator: random.Random, out, total: int) -> bool:
    """Kill a job's ranks after a random time or number of answers; return whether any was killed before its end."""
    if generator.random() < 0.3:
        moment, lines = time.monotonic() + generator.uniform(0, 3), total + 1
    else:
        moment, lines = time.monotonic() + 200, generator.randint(lines_on_disk(out), total)
    while time.monotonic() < moment and lines_on_disk(out) < lines and any(rank.is_alive() for rank in ranks):
        time.sleep(0.005)
    time.sleep(generator.uniform(0, 0.1))
    killed = [rank for rank in generator.sample(ranks, len(ranks)) if rank.is_alive()]
    pause = generator.choice([0, 0, 0, 0.3])  # sometimes the others run on for a moment without the first
    for rank in killed:
        rank.kill()
        time.sleep(pause)
    for rank in ranks:
        rank.join()
    return any(rank.exitcode == -9 for rank in killed)


def other_than(count: int, generator: random.Random) -> int:
    return generator.choice([number for number in (1, 2, 3) if number != count])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_fifty_killed_runs_end_as_the_uninterrupted_one(settings, uninterrupted, tmp_path):
    from helpers.warm_rank import start_ranks

    generator = random.Random(SEED)
    ids = [row["id"] for row in chosen_rows(settings.tasks, settings.limit)]
    kills, resumed_from = 0, []
    for number in range(RUNS):
        out, log = tmp_path / f"run{number}", tmp_path / f"log{number}"
        count = generator.choice([1, 2, 3])
        killed = unfinished = 0
        wanted = generator.choice([1, 1, 1, 2, 3])
        while killed < wanted:
            count, before = other_than(count, generator), lines_on_disk(out)
            ranks = start_ranks(count, free_port(), arguments(settings, out), log)
            if kill_at_random(ranks, generator, out, len(ids)):
                killed += 1
                unfinished += count * settings.batch_size
                assert lines_on_disk(out) >= before, f"run {number} lost what was on disk"
            else:  # it was complete before it was killed; start again
                assert (out / "predictions.jsonl").read_bytes() == uninterrupted, log.read_text()
                shutil.rmtree(out)
                killed = unfinished = 0
        kills += killed
        resumed_from.append(lines_on_disk(out))
        ranks = start_ranks(other_than(count, generator), free_port(), arguments(settings, out), log)
        for rank in ranks:
            rank.join(300)
        assert [rank.exitcode for rank in ranks] == [0] * len(ranks), log.read_text()
        final = (out / "predictions.jsonl").read_bytes()
        assert prediction_ids(final) == ids, f"run {number} lost or duplicated an answer"
        assert final == uninterrupted, f"run {number} differs"
        assert lines_on_disk(out) <= len(ids) + unfinished, f"run {number} generated again what was on disk"
    print(f"{RUNS} runs, {kills} kills; answers on disk when resumed: {sorted(resumed_from)} of {len(ids)}")
    assert len(set(resumed_from)) > 5, "all kills came at the same moment"
