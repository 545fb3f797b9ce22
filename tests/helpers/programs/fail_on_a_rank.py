"""The generation module with a fault on one rank; run by test_failure.py under real launchers.

Arguments: the rank, where it fails (open, prepare, answer), how (known, unknown), then those of the module.
"""

import os
import sys
import time

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.__main__ import app
from h2htalk_datasets.generation.cli import run_app
from h2htalk_datasets.generation.engines.transformers import TransformersEngine
from h2htalk_datasets.generation.run_folder import RunFolder

rank, place, how = int(sys.argv[1]), sys.argv[2], sys.argv[3]
owner = RunFolder if place == "open" else TransformersEngine
method = getattr(owner, place)


def fail(*args, **kwargs):
    if os.environ["RANK"] != str(rank):
        if place == "answer":
            time.sleep(600)  # the others are in a batch that will not end
        return method(*args, **kwargs)
    print(f"FAILED AT {time.time()}\n", end="", flush=True)  # one write: other ranks print too
    raise H2HTalkError("the cable is loose; plug it in") if how == "known" else ZeroDivisionError("no cable")


setattr(owner, place, fail)
sys.argv[1:] = sys.argv[4:]
run_app(app)
