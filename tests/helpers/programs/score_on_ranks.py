"""Each rank scores its part; run by test_distributed.py.

Argument: JSON with a list of jobs; each has the name of an embedder, and per rank [answers, references] or
[answers, references, languages].
"""

import json
import sys

from accelerate import PartialState

from h2htalk_metric.distributed import score_across_ranks
from h2htalk_metric.metrics.similarity import Embedder


def fail(texts):
    """An error that no input check detects."""
    raise OSError("lost")


def scored(parts, embedder):
    answers, references, *languages = parts[state.process_index]
    embedder = Embedder("broken", fail) if embedder == "broken" else embedder
    options = {"language": languages[0]} if languages else {}
    try:
        return score_across_ranks(answers, references, embedder=embedder, **options).rows()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


state = PartialState(cpu=True)
results = [scored(parts, embedder) for embedder, parts in json.loads(sys.argv[1])]
print(f"RANK {json.dumps([state.process_index, results])}\n", end="", flush=True)
state.destroy_process_group()
