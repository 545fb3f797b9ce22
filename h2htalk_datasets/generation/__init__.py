"""Generation: prompts in, one durable answer a record out, on one process or many.

A run is a folder. The batch plan depends on records, model and settings only, ranks take batches from a
shared counter, and a finished batch is on disk before the next is taken.
"""

__all__ = ["Answer", "Batch", "Engine", "Prompt", "RunFolder", "Settings", "generate", "make_plan"]

from h2htalk_datasets.generation.engines.base import Answer, Engine, Prompt
from h2htalk_datasets.generation.engines.plan import Batch, make_plan
from h2htalk_datasets.generation.run import Settings, generate
from h2htalk_datasets.generation.run_folder import RunFolder
