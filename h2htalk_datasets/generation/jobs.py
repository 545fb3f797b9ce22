"""One of several independent jobs that divide a run, such as the jobs of a Slurm array.

They share the run folder and nothing else. Each claims units of work (see
:mod:`~h2htalk_datasets.generation.run_folder.leases`) and may start or end at any time. The units of a job that was
killed are claimed again by the others. Whoever finds the run complete merges it.
"""

__all__ = ["answer_as_one_job"]

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.engines.base import Prompt
from h2htalk_datasets.generation.run_folder import RunFolder
from h2htalk_datasets.generation.run_folder.leases import Leases, remove_leases, working_jobs
from h2htalk_datasets.progress import progress_bar

_POLL_SECONDS = 2.0  # between two looks at what other jobs have answered
_MERGE_SECONDS = 60  # that a job waits for another one that merges

Failures = list[dict[str, str]]


class AnswerPrompts(Protocol):
    """Answers prompts and writes the answers to a shard."""

    def __call__(self, prompts: Iterable[Prompt], answered: Callable[[], None]) -> Failures:
        """Call `answered` after each answer; return the prompts without one, with the reason."""


def answer_as_one_job(
    folder: RunFolder,
    manifest: Mapping[str, Any],
    plan: Sequence[tuple[Prompt, ...]],
    ids: Sequence[str],
    answer: AnswerPrompts,
) -> Failures:
    """Answer what other jobs do not, and wait until the run is complete.

    Args:
        folder: of the run, on a disk that all jobs see.
        manifest: of the run.
        plan: units of work, the same in all jobs.
        ids: of the run's records, in order.
        answer: what answers the prompts of this job.

    Returns:
        Prompts that this job could not answer, with the reason. If there are none, the run is complete and merged.

    Raises:
        H2HTalkError: the folder has another run, is in use by an ordinary job, or cannot be written.

    """
    folder.open(manifest, shared=True)
    folder.unlock()
    shown = progress_bar("answers", len(ids), len(folder.answers(ids)[0]))
    with Leases(folder.path) as leases, shown as progress:
        queue = _Queue(folder, leases, plan, ids)

        def answered() -> None:
            queue.answered += 1
            progress.update(queue.answered + queue.with_others - progress.n)

        def unanswered() -> set[str]:
            missing = queue.missing()
            progress.update(len(ids) - len(missing) - progress.n)
            return missing - {failure["id"] for failure in failures}

        failures = answer(queue.claim(), answered)
        while missing := unanswered():
            # Units of jobs that have ended can be claimed by now; the others are waited for.
            if prompts := list(queue.claim()):
                failures += answer(prompts, answered)
            elif working_jobs(folder.path, leases.heartbeat) > 1:
                time.sleep(_POLL_SECONDS)
            else:
                raise H2HTalkError(
                    f"{len(missing)} answers have disappeared from {folder.path}; run the same command to generate "
                    "them again"
                )
        if not failures:
            _merge(folder, ids, leases)
    return failures


class _Queue:
    """The units that this job claims.

    Attributes:
        answered: answers of this job, and those that were on disk when it began.
        with_others: prompts of units that other jobs claimed, as far as this job has come in the plan.

    """

    def __init__(
        self, folder: RunFolder, leases: Leases, plan: Sequence[tuple[Prompt, ...]], ids: Sequence[str]
    ) -> None:
        self._folder, self._leases, self._plan, self._ids = folder, leases, plan, ids
        self.answered, self.with_others = len(ids) - len(self.missing()), 0

    def missing(self) -> set[str]:
        """Return the ids without an answer on disk."""
        return set(self._ids) - self._folder.answers(self._ids)[0].keys()

    def claim(self) -> Iterator[Prompt]:
        """Claim one unit after the other; yield its prompts that have no answer."""
        missing = self.missing()
        for number, unit in enumerate(self._plan):
            waiting, own = [prompt for prompt in unit if prompt.id in missing], []
            if waiting and self._leases.claim(number):
                missing = self.missing()  # the unit may be that of a job which has ended since
                own = [prompt for prompt in waiting if prompt.id in missing]
                yield from own
            self.with_others += len(waiting) - len(own)


def _merge(folder: RunFolder, ids: Sequence[str], leases: Leases) -> None:
    folder.lock(_MERGE_SECONDS)
    try:
        folder.merge(ids)
        folder.write_failures([])
        if working_jobs(folder.path, leases.heartbeat) <= 1:
            remove_leases(folder.path)
    finally:
        folder.unlock()
