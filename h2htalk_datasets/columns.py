"""The columns of every config, wherever its rows are made."""

__all__ = ["features_of"]

from typing import TYPE_CHECKING

from h2htalk_datasets.memory.rows import memory_features
from h2htalk_datasets.planning.rows import planning_features
from h2htalk_datasets.schema import features, probe_features
from h2htalk_datasets.tasks import MEMORY, PLANNING, PROBES

if TYPE_CHECKING:
    from datasets import Features


def features_of(name: str) -> "Features":
    """The columns of a config as ``datasets.Features``."""
    if name == MEMORY:
        return memory_features()
    if name == PLANNING:
        return planning_features()
    return probe_features() if name in PROBES else features()
