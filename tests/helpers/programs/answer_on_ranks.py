"""Two ranks answer in memory and rank 1 fails; each prints the error it gets. Run by test_distributed.py."""

from h2htalk_datasets.generation import Prompt
from h2htalk_datasets.generation.distributed.state import DistributedState
from h2htalk_datasets.generation.in_memory import answer_all


class Engine:
    """Has no answers on rank 0, and no memory on rank 1."""

    def prepare(self, prompts):
        return [1] * len(prompts)

    def stream(self, prompts, seed):
        if state.rank == 1:
            raise MemoryError("one prompt is too long")
        return []


state = DistributedState()
try:
    answer_all(Engine(), [Prompt("id", "t", "g", (), 4)], seed=0, state=state, key="run")
except Exception as error:
    # One write: unbuffered, as under torchrun, print writes its line break separately, after another rank's text.
    print(f"RANK {state.rank} {type(error).__name__}: {error}\n", end="", flush=True)
state.close()
