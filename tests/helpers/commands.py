"""Run commands of the installed package in a process of their own."""

import subprocess
import sys


def run(*command: str, **options) -> subprocess.CompletedProcess:
    """Run a command to its end and capture its output; the test's own time limit applies."""
    return subprocess.run([*command], capture_output=True, text=True, check=False, **options)


def h2htalk(*arguments: object, **options) -> subprocess.CompletedProcess:
    """Run ``h2htalk ...``."""
    program = "from h2htalk_metric.cli.main import main; main()"
    return run(sys.executable, "-c", program, *map(str, arguments), **options)
