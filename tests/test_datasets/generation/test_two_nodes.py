"""Two nodes, each in its own network namespace, joined by one cable: complete runs, lost nodes, a cut cable."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from helpers.launch import MODULE, Job, accelerate, arguments, free_port, lines_on_disk, prediction_ids, started
from helpers.paths import PROGRAMS

from h2htalk_datasets.generation import Settings, generate

pytestmark = pytest.mark.slow
INTERFACE = "h2h0"  # the end of the cable has the same name in both namespaces
ADDRESS = "10.213.7."


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@pytest.fixture
def namespaces():
    """Names of two namespaces that are connected with each other and nothing else."""
    if os.geteuid() or not shutil.which("ip"):
        pytest.skip("network namespaces need root and iproute2")
    names = [f"h2h-{os.getpid()}-{side}" for side in "ab"]
    try:
        for name in names:
            ip("netns", "add", name)
        first, second = names
        ip("link", "add", INTERFACE, "netns", first, "type", "veth", "peer", "name", INTERFACE, "netns", second)
        for number, name in enumerate(names, 1):
            ip("-n", name, "address", "add", f"{ADDRESS}{number}/24", "dev", INTERFACE)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", INTERFACE, "up")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces here: {error.stderr.strip()}")
    else:
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


@pytest.fixture(scope="module")
def settings(tiny_model):
    return Settings(model=str(tiny_model), tasks="DialogueBase,ItineraryResponse", limit=40, batch_size=2)


@pytest.fixture(scope="module")
def uninterrupted(settings, tmp_path_factory):
    return generate(settings, tmp_path_factory.mktemp("runs") / "uninterrupted").read_bytes()


def two_nodes(
    stack: ExitStack,
    namespaces: Sequence[str],
    settings: Settings,
    outs: Sequence[Path],
    program: Sequence[str] = MODULE,
) -> list[Job]:
    """One launcher with one rank in each namespace; each node has its own path of the run folder."""
    port = free_port()
    jobs = []
    for number, (namespace, out) in enumerate(zip(namespaces, outs, strict=True)):
        options = ["--num_machines", "2", "--machine_rank", str(number)]
        options += ["--main_process_ip", f"{ADDRESS}1", "--main_process_port", port]
        command = ["ip", "netns", "exec", namespace, *accelerate(2, program, options), *arguments(settings, out)]
        log = out.parent / f"node{number}.log"
        environment = {"GLOO_SOCKET_IFNAME": INTERFACE, "H2HTALK_SILENT_SECONDS": "15"}
        jobs.append(stack.enter_context(started(command, log, **environment)))
    return jobs


@pytest.mark.parametrize("disks", ["shared", "of their own"])
def test_two_nodes_answer_as_one_process_does(disks, namespaces, settings, uninterrupted, tmp_path):
    outs = [tmp_path / "run", tmp_path / ("run" if disks == "shared" else "other")]
    with ExitStack() as stack:
        first, second = two_nodes(stack, namespaces, settings, outs)
        assert first.ended_within(200) == 0, first.output + second.output
        assert second.ended_within(60) == 0, second.output
    assert (outs[0] / "predictions.jsonl").read_bytes() == uninterrupted
    for number, out in enumerate(outs):
        assert list((out / "shards").glob(f"*-rank{number}.jsonl")), "every node has answered something"
        assert not list(out.glob(".*.mark"))


@pytest.mark.parametrize("accident", ["second node killed", "first node killed", "cable cut"])
def test_a_lost_node_ends_the_other_which_then_finishes_alone(accident, namespaces, settings, uninterrupted, tmp_path):
    out = tmp_path / "run"
    half = len(prediction_ids(uninterrupted)) // 2
    with ExitStack() as stack:
        jobs = two_nodes(stack, namespaces, settings, [out, out])
        jobs[0].wait_until(lambda: lines_on_disk(out) >= half)
        happened = time.monotonic()
        if accident == "cable cut":
            ip("-n", namespaces[1], "link", "set", INTERFACE, "down")
            remaining = jobs
        else:
            remaining = [jobs[0] if accident.startswith("second") else jobs[1]]
            jobs[1 - jobs.index(remaining[0])].kill()
        for job in remaining:
            assert job.ended_within(60 - (time.monotonic() - happened)) != 0
    # The second node learns of the first one's end from its heartbeat or from the store, whichever comes first. The
    # store has the kernel's words, which differ between a reset and a closed connection.
    first_lost = rf"lost the job's first node \({ADDRESS}1\)|lost another process of the job \(.+\);"
    for job in remaining:
        assert re.search("lost rank 1: silent for 15 s" if job is jobs[0] else first_lost, job.output), job.output
        assert job.output.count("run the same command again to continue") == 1
    print(f"{accident}: ended after {time.monotonic() - happened:.1f} s")
    assert lines_on_disk(out) >= half
    assert generate(settings, out).read_bytes() == uninterrupted


def test_a_rank_that_fails_ends_the_other_node_too(namespaces, settings, tmp_path):
    program = [str(PROGRAMS / "fail_on_a_rank.py"), "1", "stream", "expected"]
    with ExitStack() as stack:
        first, second = two_nodes(stack, namespaces, settings, [tmp_path / "run"] * 2, program)
        assert second.ended_within(200) != 0
        assert first.ended_within(30) != 0
        ended = time.time()
    assert ended - float(re.search(r"FAILED AT ([\d.]+)", second.output)[1]) < 30
    assert second.output.count("error (rank 1): the cable is loose; plug it in\n") == 1
    reason = r"^stopped, because the job ended on node 1 \(.*\): error \(rank 1\): the cable is loose; plug it in$"
    assert len(re.findall(reason, first.output, re.M)) == 1, first.output
