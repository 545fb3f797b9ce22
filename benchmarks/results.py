"""Keep one section a benchmark in RESULTS.md, with the machine and the versions it ran on."""

import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

FILE = Path(__file__).with_name("RESULTS.md")


def seconds(work: Callable[[], object], repeats: int = 1) -> list[float]:
    """Wall-clock seconds of each of several runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return times


def ratio(slow: Sequence[float], fast: Sequence[float]) -> str:
    """How many times faster `fast` is: the median of paired ratios, and their spread."""
    ratios = sorted(s / f for s, f in zip(slow, fast, strict=True))
    return f"{statistics.median(ratios):.1f} ({ratios[0]:.1f} to {ratios[-1]:.1f})"


def write(title: str, text: str, packages: Sequence[str]) -> None:
    """Print a section and put it into RESULTS.md, in place of an older one of the same title."""
    versions = ", ".join([f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in packages)])
    section = f"## {title}\n\n{_machine()}; {versions}.\n\n{text.strip()}\n"
    print(section)
    old = FILE.read_text("utf-8") if FILE.exists() else "# Benchmarks\n\nRatios against a peer in the same run.\n"
    section_of_old = rf"^## {re.escape(title)}\n.*?(?=^## |\Z)"
    kept = re.sub(section_of_old, "", old, flags=re.DOTALL | re.MULTILINE).rstrip()
    FILE.write_text(f"{kept}\n\n{section}", "utf-8")


def _machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":")[1].strip() for line in lines if "model name" in line]
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    return f"{time.strftime('%Y-%m-%d')}, {len(names)} cores of {names[0]}, {threads} threads"
