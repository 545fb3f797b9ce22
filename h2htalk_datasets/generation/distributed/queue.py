"""The queue of work: ranks claim items from one shared counter, so a slow rank claims fewer."""

__all__ = ["claim_next"]

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from h2htalk_datasets.generation.distributed.state import peers_required

Item = TypeVar("Item")


def claim_next(items: Sequence[Item], store: Any, key: str) -> Iterator[Item]:
    """Claim one item after the other, in order; each item is claimed by exactly one rank.

    Args:
        items: the same on every rank.
        store: a ``torch.distributed.Store``, or None for a single process, which gets all items.
        key: of the counter; the same on every rank, new for every queue.

    Raises:
        H2HTalkError: another process of the job is lost.

    """
    if store is None:
        yield from items
        return
    while True:
        with peers_required():
            index = store.add(key, 1) - 1
        if index >= len(items):
            return
        yield items[index]
