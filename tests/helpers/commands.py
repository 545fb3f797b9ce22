"""Run commands of the installed package."""

import contextlib
import io
import subprocess
import sys

from h2htalk_metric.cli.main import main


def run(*command: str, **options) -> subprocess.CompletedProcess:
    """Run a command to its end and capture its output; the test's own time limit applies."""
    return subprocess.run([*command], capture_output=True, text=True, check=False, **options)


def h2htalk(*arguments: object, **options) -> subprocess.CompletedProcess:
    """Run ``h2htalk ...``, in this process unless there are options for another one (env, cwd).

    A process of its own takes some seconds to import what this one already has.
    """
    command = ["h2htalk", *map(str, arguments)]
    if options:
        return run(sys.executable, "-c", "from h2htalk_metric.cli.main import main; main()", *command[1:], **options)
    stdout, stderr = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, command
    try:
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            main()
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.argv = before
    return subprocess.CompletedProcess(command, code or 0, stdout.getvalue(), stderr.getvalue())
