"""Generation: prompts in, one durable answer per record out, on one process or many.

A run is a folder. Ranks claim small units of records from a shared counter. An answer is on disk as soon as it ends.
"""

__all__ = ["Answer", "Engine", "Prompt", "RunFolder", "Settings", "generate", "make_plan"]

from h2htalk_datasets.generation.config import Settings
from h2htalk_datasets.generation.engines.base import Answer, Engine, Prompt
from h2htalk_datasets.generation.engines.plan import make_plan
from h2htalk_datasets.generation.run import generate
from h2htalk_datasets.generation.run_folder import RunFolder
