"""One command of a sweep as a process of its own, with its output in a log file."""

__all__ = ["run_command"]

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from h2htalk_metric.sweep import child
from h2htalk_metric.sweep.step_log import StepLog

_MOST_CHARACTERS = 300


def run_command(log: StepLog, folder: Path, name: str, arguments: Sequence[str], *, processes: int = 1) -> bool:
    """Run ``h2htalk ARGUMENTS`` to its end; its output is appended to ``NAME.log``.

    If the sweep is killed, the command is terminated too, so that the next sweep can continue in its folder.

    Args:
        log: of the sweep.
        folder: of the sweep.
        name: of the entry.
        arguments: the first one is the command, which names the step.
        processes: ranks on this machine.

    Returns:
        Whether it ended with exit code 0.

    """
    step = arguments[0]
    with (folder / f"{name}.log").open("ab") as output:
        output.write(f"$ h2htalk {' '.join(arguments)}\n".encode())
        output.flush()
        begin, start = output.tell(), time.monotonic()
        log.started(name, step, arguments)
        process = subprocess.Popen(
            [sys.executable, child.__file__, str(os.getpid()), *_launcher(processes), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            code = process.wait()
        except BaseException:  # for instance Ctrl-C: the command stores what it has
            process.terminate()
            process.wait()
            raise
    failure = "" if code == 0 else _last_error(folder / f"{name}.log", begin, code)
    log.ended(name, step, time.monotonic() - start, code, failure)
    return code == 0


def _launcher(processes: int) -> list[str]:
    program = ["-m", "h2htalk_metric.cli"]
    if processes == 1:
        return [sys.executable, *program]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*torchrun, "--nproc-per-node", str(processes), *program]


def _last_error(file: Path, begin: int, code: int) -> str:
    """The last line with an error, or the last line at all."""
    lines = [line.strip() for line in file.read_bytes()[begin:].decode("utf-8", "replace").splitlines()]
    lines = [line for line in lines if line]
    errors = [line for line in lines if line.startswith("error")]
    if code < 0:
        return f"killed by signal {-code}"
    return (errors or lines or [f"exit code {code}"])[-1][:_MOST_CHARACTERS]
