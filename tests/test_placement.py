"""Which GPUs a replica gets, and how many prompts memory holds."""

import pytest

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.models import load_model, replica_devices
from h2htalk_datasets.generation.transformers_engine import _power_of_two


def test_replicas_share_a_node_without_overlap():
    assert [replica_devices(rank, 2, 8) for rank in range(4)] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert replica_devices(0, 8, 8) == list(range(8))
    with pytest.raises(H2HTalkError, match="launch at most 2 processes on this node"):
        replica_devices(2, 4, 8)


def test_several_devices_need_gpus(tiny_model):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has GPUs")
    with pytest.raises(H2HTalkError, match="--devices-per-replica needs GPUs"):
        load_model(str(tiny_model), devices_per_replica=2)


@pytest.mark.parametrize(("rows", "size"), [(0.3, 1), (1, 1), (7.9, 4), (8, 8), (63.9, 32), (5000, 64)])
def test_batch_sizes_are_powers_of_two(rows, size):
    assert _power_of_two(rows) == size
