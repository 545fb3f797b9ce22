"""Serve a board by its command, for tests in a browser and for the benchmark."""

import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from helpers.launch import free_port


@contextmanager
def served(folder: Path):
    """The board of a folder, served on a free port; yields its address."""
    port = free_port()
    call = "from h2htalk_metric.cli.main import main; main()"
    command = [sys.executable, "-c", call, "leaderboard", "--port", port, "--storage", str(folder)]
    with subprocess.Popen([*command, "--allow-partial"], stdout=subprocess.DEVNULL) as process:
        try:
            url = f"http://127.0.0.1:{port}/"
            deadline = time.monotonic() + 300
            while not _is_ready(url):
                assert process.poll() is None and time.monotonic() < deadline, "the board did not start"
                time.sleep(0.25)
            yield url
        finally:
            process.kill()  # a termination would wait for open pages


def _is_ready(url):
    try:
        return b"H2HTalk leaderboard" in urllib.request.urlopen(url, timeout=20).read()
    except OSError:
        return False
