"""Each rank scores its part; run by test_distributed.py.

Arguments: JSON with [answers, references] or [answers, references, languages] per rank, and the name of an embedder.
"""

import json
import sys

from accelerate import PartialState

from h2htalk_metric.distributed import score_across_ranks
from h2htalk_metric.metrics.similarity import Embedder


def fail(texts):
    """An error that no input check detects."""
    raise OSError("lost")


state = PartialState(cpu=True)
answers, references, *languages = json.loads(sys.argv[1])[state.process_index]
embedder = Embedder("broken", fail) if sys.argv[2] == "broken" else sys.argv[2]
options = {"language": languages[0]} if languages else {}
try:
    result = score_across_ranks(answers, references, embedder=embedder, **options).rows()
except Exception as error:
    result = f"{type(error).__name__}: {error}"
print(f"RANK {json.dumps([state.process_index, result])}\n", end="", flush=True)
state.destroy_process_group()
