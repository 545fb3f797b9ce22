"""Run folders on node-local disks: every node has its own folder, and the answers are merged on rank 0's."""

__all__ = ["merge_all_disks", "open_on_all_disks"]

import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any
from uuid import uuid4

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.distributed.state import DistributedState
from h2htalk_datasets.generation.run_folder import RunFolder


def open_on_all_disks(
    folder: RunFolder, manifest: Mapping[str, Any], ids: Sequence[str], state: DistributedState
) -> bool:
    """Open and lock the run folder on rank 0, and on one rank of each node that does not see rank 0's folder.

    Args:
        folder: of this rank.
        manifest: of the run.
        ids: of its records.
        state: the ranks.

    Returns:
        Whether this rank locked its folder.

    """
    marker = folder.path / f".{uuid4().hex}.mark"  # a new name, of which no file system has cached that it is absent
    if state.is_main:
        _open(folder, manifest, ids)
        marker.touch()
    marker = folder.path / state.broadcast(marker.name)
    own_disk = state.local_rank == 0 and not marker.exists()
    if own_disk:
        _open(folder, manifest, ids)
    state.barrier()  # no rank writes before every folder is open
    if state.is_main:
        for file in folder.path.glob(".*.mark"):  # also those of killed jobs
            file.unlink(missing_ok=True)
    return state.is_main or own_disk


def merge_all_disks(folder: RunFolder, ids: Sequence[str], state: DistributedState) -> None:
    """Write rank 0's ``predictions.jsonl``, with answers from the other nodes' disks where rank 0's disk lacks them.

    Raises:
        H2HTalkError: answers that this job wrote are missing on every disk.

    """
    state.barrier()  # every rank's last answer is on disk
    missing = state.broadcast(folder.merge(ids) if state.is_main else None)
    if missing:
        elsewhere = folder.answers(missing)[0] if state.local_rank == 0 and not state.is_main else {}
        parts = state.all_gather(elsewhere)
        if state.is_main:
            with closing(folder.shard(state.rank)) as shard:
                shard.append([answer for part in parts for answer in part.values()])
        missing = state.broadcast(folder.merge(ids) if state.is_main else None)
    if missing:
        raise H2HTalkError(
            f"{len(missing)} answers that this job wrote have disappeared from {folder.path}; "
            "run the same command to generate them again"
        )


def _open(folder: RunFolder, manifest: Mapping[str, Any], ids: Sequence[str]) -> None:
    folder.open(manifest)
    for note in folder.answers(ids)[1]:
        print(f"moved to set_aside.jsonl and generated again: {note}", file=sys.stderr)
    folder.set_aside_damage(ids)
