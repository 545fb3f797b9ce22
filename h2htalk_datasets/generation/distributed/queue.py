"""Ranks take whole batches from one counter, so a slow node takes fewer; without a group it is a plain loop."""

__all__ = ["Group", "take"]

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeVar

from h2htalk_datasets.errors import H2HTalkError, one_line
from h2htalk_datasets.generation.distributed.watchdog import GOES_ON, ranks_have_met

Item = TypeVar("Item")
_NUMBERS = count()  # of the process, since a job may make a group more than once


class Group:
    """The ranks of one job, or a single process where nothing was launched distributed.

    Attributes:
        rank: of this process, from 0.
        local_rank: of this process on its node, from 0.
        world_size: number of ranks.

    """

    def __init__(self) -> None:
        import torch
        from accelerate import PartialState

        self._state = PartialState(cpu=not torch.cuda.is_available())
        self.rank: int = self._state.process_index
        self.local_rank: int = max(0, self._state.local_process_index)
        self.world_size: int = self._state.num_processes
        self.device = self._state.device

    @property
    def first(self) -> bool:
        """Whether this is rank 0, which speaks for all."""
        return self.rank == 0

    @property
    def store(self) -> Any:
        """The process group's key-value store, or None for a single process."""
        if self.world_size == 1:
            return None
        from torch.distributed.distributed_c10d import _get_default_store

        return _get_default_store()

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value, in the order of ranks; waits for the slowest as long as it takes."""
        if self.world_size == 1:
            return [value]
        import torch.distributed

        with _others_needed():
            self._meet()
            values: list[Any] = [None] * self.world_size
            torch.distributed.all_gather_object(values, value)
        ranks_have_met()
        return values

    def add(self, key: str, number: int) -> int:
        """Add to a counter that all ranks share, and return its new value."""
        with _others_needed():
            return self.store.add(key, number)

    def key(self, name: str) -> str:
        """A key that was never used in the job, the same on every rank if all ask for keys in the same order."""
        return f"h2htalk/{name}/{next(_NUMBERS)}"

    def _meet(self) -> None:
        """Wait for all ranks without the limit of minutes that a collective has; one may hold a batch of hours."""
        key = self.key("meeting")
        here = self.store.add(key, 1)
        while here < self.world_size:
            time.sleep(0.05)
            here = self.store.add(key, 0)

    def close(self) -> None:
        """Leave the process group, so that the job ends without a warning."""
        self._state.destroy_process_group()


def take(items: Sequence[Item], store: Any, key: str) -> Iterator[Item]:
    """Yield the items that fall to this rank, in order, each to exactly one rank.

    Args:
        items: the same on every rank.
        store: a ``torch.distributed.Store``, or None to yield all.
        key: names the counter; the same on every rank, new for every queue.

    """
    if store is None:
        yield from items
        return
    while True:
        with _others_needed():
            index = store.add(key, 1) - 1
        if index >= len(items):
            return
        yield items[index]


@contextmanager
def _others_needed() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # whatever the store or a collective raises
        raise H2HTalkError(f"lost another process of the job ({one_line(error)}); {GOES_ON}") from error
