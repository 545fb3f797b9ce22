"""The generation module with an error on one rank; run by test_job_failures.py and test_two_nodes.py.

Arguments: the rank, where it fails (open, prepare, stream), the kind of error (expected, unexpected), then the options
of the module.
"""

import os
import sys
import time

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.__main__ import app
from h2htalk_datasets.generation.cli import run_app
from h2htalk_datasets.generation.engines.transformers import TransformersEngine
from h2htalk_datasets.generation.run_folder import RunFolder

rank, method_name, kind = int(sys.argv[1]), sys.argv[2], sys.argv[3]
owner = RunFolder if method_name == "open" else TransformersEngine
method = getattr(owner, method_name)


def fail(*args, **kwargs):
    if os.environ["RANK"] != str(rank):
        if method_name == "stream":
            time.sleep(600)  # the other ranks have a step that does not end
        return method(*args, **kwargs)
    print(f"FAILED AT {time.time()}\n", end="", flush=True)  # one write: other ranks print too
    raise H2HTalkError("the cable is loose; plug it in") if kind == "expected" else ZeroDivisionError("no cable")


setattr(owner, method_name, fail)
sys.argv[1:] = sys.argv[4:]
run_app(app)
