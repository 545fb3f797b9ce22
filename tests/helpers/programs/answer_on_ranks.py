"""Two ranks answer in memory, and rank 1 can't go on; each prints what it then raised. Run by test_distributed.py."""

from h2htalk_datasets.generation import Prompt
from h2htalk_datasets.generation.distributed.state import DistributedState
from h2htalk_datasets.generation.in_memory import answer_all


class Engine:
    """Has nothing to answer on rank 0, and on rank 1 not the memory to."""

    def prepare(self, prompts):
        return [1] * len(prompts)

    def stream(self, batches):
        if group.rank == 1:
            raise MemoryError("one prompt is too long")
        return []


group = DistributedState()
try:
    answer_all(Engine(), [Prompt("id", "t", "g", (), 4)], batch_size=1, seed=0, state=group, key="run")
except Exception as error:
    # One write: unbuffered, as torchrun runs it, print writes its line break apart, and the other rank comes between.
    print(f"RANK {group.rank} {type(error).__name__}: {error}\n", end="", flush=True)
group.close()
