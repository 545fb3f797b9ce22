"""``steps.jsonl``: every process of a sweep, appended when it starts and when it ends."""

__all__ = ["JOB", "StepLog", "StepTotals"]

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from h2htalk_datasets.files import append_json_line, read_json_lines
from h2htalk_datasets.generation.run_folder import RunFolder

JOB = "slurm"
"""The step of a job that generates; its start is that of its time in the queue."""
_PARTS = {"run": "generation", "score": "generation", JOB: "generation"}  # the last one of a part counts
_GENERATION = ("run", JOB)  # the steps whose arguments decide the answers


@dataclass(frozen=True)
class StepTotals:
    """What the log says about one entry.

    Attributes:
        seconds: of all processes, also of those that failed or were killed.
        failure: of the last generation or scoring, of the judge or of the board, or "".
        attempts: number of processes.

    """

    seconds: float
    failure: str
    attempts: int


class StepLog:
    """The log of a sweep's folder; several jobs may append to it.

    Args:
        folder: of the sweep.

    Attributes:
        file: the log.

    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.file = folder / "steps.jsonl"

    def started(self, name: str, step: str, arguments: Sequence[str]) -> None:
        """Append that a process of an entry starts; `step` is its command."""
        fresh = not RunFolder(self._folder / name).exists
        line = {"entry": name, "step": step, "arguments": list(arguments), "started": time.time(), "fresh": fresh}
        append_json_line(self.file, line)

    def ended(self, name: str, step: str, seconds: float, code: int, failure: str = "") -> None:
        """Append how it ended."""
        line = {"entry": name, "step": step, "seconds": round(seconds, 1), "code": code, "failure": failure}
        append_json_line(self.file, line)

    def answers_are_of(self, name: str, arguments: Sequence[str]) -> bool:
        """Whether the answers of an entry, if there are any, are those of these arguments.

        That is so if a generation with them created the run folder, or ended well in it later: a run folder never
        changes its options, but a changed option may be one that changes no answer.
        """
        accepted: list[list[str]] = []
        started: list[str] = []
        for line in self._lines(name):
            if line["step"] not in _GENERATION:
                continue
            if "arguments" in line:
                started = line["arguments"]
                accepted = [started] if line["fresh"] else accepted
            elif line["code"] == 0:
                accepted.append(started)
        return list(arguments) in accepted

    def is_done(self, name: str, step: str, arguments: Sequence[str]) -> bool:
        """Whether a step ended well with these arguments, and no generation or scoring started after it."""
        done = False
        for line in self._lines(name):
            if line["step"] == step and "arguments" in line:
                same = line["arguments"] == list(arguments)
                done = False
            elif line["step"] == step:
                done = same and line["code"] == 0
            elif line["step"] in (*_GENERATION, "score"):
                done = False
        return done

    def totals(self, name: str) -> StepTotals:
        """Time of an entry, and its last failure."""
        seconds, attempts, started = 0.0, 0, None
        failures: dict[str, str] = {}
        for line in self._lines(name):
            if "arguments" in line:
                if line["step"] == JOB:
                    continue
                seconds += self._killed_after(name, started, line["started"])
                started, attempts = line["started"], attempts + 1
            else:
                seconds, started = seconds + line["seconds"], None
                part = _PARTS.get(line["step"], line["step"])
                failures[part] = "" if line["code"] == 0 else f"{line['step']}: {line['failure']}"
        failure = next(filter(None, failures.values()), "")
        return StepTotals(seconds + self._killed_after(name, started, time.time()), failure, attempts)

    def _killed_after(self, name: str, started: float | None, end: float) -> float:
        """Seconds of a process whose end nobody saw, up to its last answer or line of the log.

        Args:
            name: of the entry.
            started: of the process; None: there is none.
            end: when the next process started, which may be days later; it writes other shards, and the same log.

        """
        if started is None:
            return 0.0
        files = [self._folder / f"{name}.log", *(self._folder / name / "shards").glob("*.jsonl")]
        written = [file.stat().st_mtime for file in files if file.exists()]
        return max([0.0, *(moment - started for moment in written if moment <= end)])

    def _lines(self, name: str) -> list[dict[str, Any]]:
        return [line for line in read_json_lines(self.file) if line.get("entry") == name]
