"""Generation: prompts in, one durable answer per record out, on one process or many.

A run is a folder. The batch plan depends on records, model and settings only. Ranks claim batches from a shared
counter, and a finished batch is on disk before the rank claims its next one.
"""

__all__ = ["Answer", "Batch", "BatchSpec", "Engine", "Prompt", "RunFolder", "Settings", "generate", "make_plan"]

from h2htalk_datasets.generation.config import Settings
from h2htalk_datasets.generation.engines.base import Answer, Batch, Engine, Prompt
from h2htalk_datasets.generation.engines.plan import BatchSpec, make_plan
from h2htalk_datasets.generation.run import generate
from h2htalk_datasets.generation.run_folder import RunFolder
