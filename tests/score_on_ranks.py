"""Each rank scores its part; run by test_distributed.py."""

import json
import sys

from accelerate import PartialState

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.distributed import score_across_ranks

state = PartialState(cpu=True)
parts = json.loads(sys.argv[1])
try:
    result = score_across_ranks(*parts[state.process_index], embedder="demo").rows()
except H2HTalkError as error:
    result = str(error)
print(f"RANK {json.dumps([state.process_index, result])}\n", end="", flush=True)
state.destroy_process_group()
