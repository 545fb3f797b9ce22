"""The ranks of a job, and what they share: a key-value store and collectives over Python objects."""

__all__ = ["DistributedState", "peers_required"]

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from h2htalk_datasets.errors import H2HTalkError, one_line
from h2htalk_datasets.generation.distributed.heartbeat import RANKS_READY
from h2htalk_datasets.generation.distributed.watchdog import RESUME_HINT

_KEY_NUMBERS = count()  # per process, because a job may create several states
_POLL_SECONDS = 0.05


class DistributedState:
    """The ranks of one job, or a single process if nothing was launched distributed.

    Attributes:
        rank: of this process, from 0.
        local_rank: of this process on its node, from 0.
        world_size: number of ranks.
        device: the torch device of this process.

    """

    def __init__(self) -> None:
        import torch
        from accelerate import PartialState

        _check_device()
        # gloo on GPUs too: ranks exchange small Python objects only, which NCCL would copy through GPU memory. The
        # process group of a training loop is used as it is.
        backend = {"backend": "gloo"} if "LOCAL_RANK" in os.environ else {}
        self._state = PartialState(cpu=not torch.cuda.is_available(), **backend)
        self.rank: int = self._state.process_index
        self.local_rank: int = max(0, self._state.local_process_index)
        self.world_size: int = self._state.num_processes
        self.device = self._state.device

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    @property
    def store(self) -> Any:
        """The process group's key-value store; None for a single process."""
        if self.world_size == 1:
            return None
        from torch.distributed.distributed_c10d import _get_default_store

        return _get_default_store()

    def all_gather(self, value: Any) -> list[Any]:
        """Return every rank's value, in the order of ranks. Waits for the slowest rank without a time limit.

        Raises:
            H2HTalkError: another process of the job is lost.

        """
        if self.world_size == 1:
            return [value]
        import torch.distributed

        with peers_required():
            self._wait_for_all_ranks()
            values: list[Any] = [None] * self.world_size
            torch.distributed.all_gather_object(values, value)
        RANKS_READY.set()
        return values

    def broadcast(self, value: Any) -> Any:
        """Return rank 0's value on every rank; the other ranks' values are ignored."""
        return self.all_gather(value)[0]

    def barrier(self) -> None:
        """Wait until every rank is here."""
        self.all_gather(None)

    def add(self, key: str, number: int) -> int:
        """Add to a counter that all ranks share, and return its new value."""
        with peers_required():
            return self.store.add(key, number)

    def unique_key(self, name: str) -> str:
        """Return a key that is new in the job and the same on every rank, if all ask for keys in the same order."""
        return f"h2htalk/{name}/{next(_KEY_NUMBERS)}"

    def _wait_for_all_ranks(self) -> None:
        """Wait without the time limit that a collective has: another rank may generate for hours."""
        key = self.unique_key("barrier")
        arrived = self.store.add(key, 1)
        while arrived < self.world_size:
            time.sleep(_POLL_SECONDS)
            arrived = self.store.add(key, 0)

    def close(self) -> None:
        """Leave the process group, so that the job ends without a warning."""
        self._state.destroy_process_group()


def _check_device() -> None:
    """Check that no accelerator is ignored without a word.

    Raises:
        H2HTalkError: there is one that h2htalk does not support.

    """
    import torch
    from accelerate.utils import parse_flag_from_env

    device = torch.accelerator.current_accelerator()
    if device is not None and device.type != "cuda" and not parse_flag_from_env("ACCELERATE_USE_CPU"):
        raise H2HTalkError(
            f"this machine has an accelerator of type {device.type!r}, which h2htalk does not support; "
            "set ACCELERATE_USE_CPU=1 to use the CPU"
        )


@contextmanager
def peers_required() -> Iterator[None]:
    """Report a failed call to the store or a failed collective as the loss of another process.

    Raises:
        H2HTalkError: the block raised RuntimeError, of which all errors of ``torch.distributed`` are.

    """
    try:
        yield
    except RuntimeError as error:
        raise H2HTalkError(f"lost another process of the job ({one_line(error)}); {RESUME_HINT}") from error
