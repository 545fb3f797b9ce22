"""Start generation as people do (one process, torchrun, accelerate), and read what it wrote."""

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from h2htalk_datasets.generation import Settings

MODULE = ("-m", "h2htalk_datasets.generation")


def free_port() -> str:
    """A free port, below the range from which the system gives ports to other programs before the job listens."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
            return str(port)


def alone(_: int = 1, program: Sequence[str] = MODULE) -> list[str]:
    return [sys.executable, *program]


def torchrun(processes: int, program: Sequence[str] = MODULE) -> list[str]:
    options = ["--nproc_per_node", str(processes), "--master_port", free_port()]
    return [sys.executable, "-m", "torch.distributed.run", *options, *program]


def torchrun_node(node: int, nodes: int, port: str, program: Sequence[str] = MODULE) -> list[str]:
    """One of several torchrun commands on this machine, each with one process."""
    place = ["--nnodes", str(nodes), "--node_rank", str(node), "--nproc_per_node", "1"]
    rendezvous = ["--master_addr", "127.0.0.1", "--master_port", port]
    return [sys.executable, "-m", "torch.distributed.run", *place, *rendezvous, *program]


def accelerate(processes: int, program: Sequence[str] = MODULE, options: Sequence[str] = ()) -> list[str]:
    # --multi_gpu starts several processes also without a GPU; they then communicate through gloo.
    options = options or ("--num_machines", "1", "--main_process_port", free_port())
    fixed = ["--multi_gpu", "--num_processes", str(processes), "--mixed_precision", "no", "--dynamo_backend", "no"]
    return [sys.executable, "-m", "accelerate.commands.launch", *fixed, *options, *program]


def arguments(settings: Settings, out: Path) -> list[str]:
    names = ("model", "tasks", "limit", "batch_size", "temperature")
    options = {name.replace("_", "-"): getattr(settings, name) for name in names}
    return [text for key, value in {**options, "out": out}.items() for text in (f"--{key}", str(value))]


@dataclass
class Job:
    """A started command with all its processes; its output goes to a file."""

    process: subprocess.Popen
    log: Path

    @property
    def output(self) -> str:
        return self.log.read_text("utf-8", errors="replace")

    def wait_until(self, ready, seconds: float = 200) -> None:
        """Wait until `ready()`; fails if the job ends before."""
        deadline = time.monotonic() + seconds
        while not ready():
            assert self.process.poll() is None, self.output
            assert time.monotonic() < deadline, self.output
            time.sleep(0.02)

    def ended_within(self, seconds: float) -> int:
        """The exit code; fails, with the job's output, if it takes longer."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} s:\n{self.output}") from None

    def kill(self) -> None:
        """SIGKILL to the launcher and every rank, each of which has its own session."""
        with contextlib.suppress(psutil.NoSuchProcess):
            launcher = psutil.Process(self.process.pid)
            ranks, deadline = launcher.children(recursive=True), time.monotonic() + 30
            for process in [launcher, *ranks]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            for rank in ranks:  # once they have ended, their locks are free
                with contextlib.suppress(psutil.NoSuchProcess):
                    while rank.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
                        time.sleep(0.01)
        self.process.wait()


@contextlib.contextmanager
def started(command: Sequence[str], log: Path, **environment: str) -> Iterator[Job]:
    """A job, killed at the end if it still runs."""
    with log.open("wb") as file:
        job = Job(subprocess.Popen(command, stdout=file, stderr=file, env=os.environ | environment), log)
    try:
        yield job
    finally:
        job.kill()


def lines_on_disk(out: Path) -> int:
    return sum(file.read_bytes().count(b"\n") for file in (out / "shards").glob("*.jsonl")) if out.exists() else 0


def prediction_ids(predictions: bytes) -> list[str]:
    return [json.loads(line)["id"] for line in predictions.split(b"\n") if line]
