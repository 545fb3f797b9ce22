"""Run a list of models one after the other; a model that fails never stops the others."""

__all__ = ["EntryResult", "Sweep", "compare_entries"]

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import read_json_lines
from h2htalk_metric.leaderboard.from_run import make_submissions
from h2htalk_metric.leaderboard.storage import Storage
from h2htalk_metric.leaderboard.submission import digest_of, pack
from h2htalk_metric.reports.comparison_page import write_comparison
from h2htalk_metric.runs.groups import MOST_RUNS, run_groups
from h2htalk_metric.runs.run import Run
from h2htalk_metric.runs.scoring import read_scores
from h2htalk_metric.sweep.models_file import Entry, sizes_of
from h2htalk_metric.sweep.process import run_command
from h2htalk_metric.sweep.step_log import StepLog


@dataclass(frozen=True)
class EntryResult:
    """How far an entry is, and what it took.

    Attributes:
        name: of the entry.
        model: its model.
        overall: Overall times 100; None without all eleven configs, with several languages, or if it is not scored.
        is_scored: whether the run is complete and scored.
        failure: why its last process failed, or "".
        seconds: of all its processes.
        prompt_tokens: of all answers that were generated.
        new_tokens: of the same answers.

    """

    name: str
    model: str
    overall: float | None
    is_scored: bool
    failure: str
    seconds: float
    prompt_tokens: int
    new_tokens: int


class Sweep:
    """The folder of a sweep, and what is done in it.

    Args:
        folder: has a run folder and a log per entry, ``steps.jsonl`` and the board.
        judging: arguments of ``h2htalk judge`` without the run folder; empty: nothing is judged.

    """

    def __init__(self, folder: Path, judging: Sequence[str] = ()) -> None:
        self.folder, self._judging = folder, list(judging)
        self.log = StepLog(folder)

    def run_folder(self, entry: Entry) -> Path:
        """The run folder of an entry."""
        return self.folder / entry.name

    def generation(self, entry: Entry) -> list[str]:
        """Command that generates and scores an entry."""
        return ["run", *entry.arguments(), "--out", str(self.run_folder(entry))]

    def is_scored(self, entry: Entry) -> bool:
        """Whether an entry is complete and scored, with its current options."""
        run = Run(self.run_folder(entry))
        if not run.complete or not self.log.answers_are_of(entry.name, self.generation(entry)):
            return False
        try:
            return "Overall" in read_scores(run).row()
        except H2HTalkError:
            return False

    def do(self, entry: Entry) -> bool:
        """Generate, score, judge and put on the board what is open of an entry.

        Returns:
            Whether everything is done.

        """
        if not self.is_scored(entry) and not self._generate(entry):
            return False
        judged = self._judge(entry)
        return self._put_on_board(entry) and judged

    def result(self, entry: Entry) -> EntryResult:
        """How far an entry is, and what it took."""
        totals, run = self.log.totals(entry.name), Run(self.run_folder(entry))
        is_scored = self.is_scored(entry)
        shards = sorted((run.path / "shards").glob("*.jsonl")) or [run.folder.predictions_file]
        answers = [line for file in shards for line in read_json_lines(file)]
        return EntryResult(
            name=entry.name,
            model=entry.model,
            overall=read_scores(run).row()["Overall"] if is_scored and len(run.languages) == 1 else None,
            is_scored=is_scored,
            failure=totals.failure,
            seconds=totals.seconds,
            prompt_tokens=sum(line.get("prompt_tokens") or 0 for line in answers),
            new_tokens=sum(line.get("new_tokens") or 0 for line in answers),
        )

    def _generate(self, entry: Entry) -> bool:
        command, folder = self.generation(entry), self.run_folder(entry)
        if Run(folder).complete and self.log.answers_are_of(entry.name, command):
            embedder = entry.options.get("embedder")
            command = ["score", str(folder), *(["--embedder", str(embedder)] if embedder else [])]
            return run_command(self.log, self.folder, entry.name, command)
        return run_command(self.log, self.folder, entry.name, command, processes=entry.processes)

    def _judge(self, entry: Entry) -> bool:
        command = ["judge", str(self.run_folder(entry)), *self._judging]
        if not self._judging or self.log.is_done(entry.name, "judge", command):
            return True
        return run_command(self.log, self.folder, entry.name, command)

    def _put_on_board(self, entry: Entry) -> bool:
        """Runs over some of the records are on the board as partial ones."""
        try:
            board = Storage(self.folder / "board", allow_partial=True)
            shown = {row.digest for row in board.rows()}
            for submission in make_submissions(self.run_folder(entry), entry.bracket, entry.name).values():
                if digest_of(submission) not in shown:
                    board.submit(pack(submission))
        except (H2HTalkError, OSError) as error:
            self.log.ended(entry.name, "board", 0, 2, str(error))
            return False
        self.log.ended(entry.name, "board", 0, 0)
        return True


def compare_entries(sweep: Sweep, entries: Sequence[Entry]) -> Path | str:
    """Write ``compare.html`` of all scored entries.

    Returns:
        The file, or why there is none.

    """
    scored = [Run(sweep.run_folder(entry)) for entry in entries if sweep.is_scored(entry)]
    file = sweep.folder / "compare.html"
    try:
        write_comparison(run_groups(scored[:MOST_RUNS]), file, sizes_of(entries))
    except H2HTalkError as error:
        return str(error)
    return file
