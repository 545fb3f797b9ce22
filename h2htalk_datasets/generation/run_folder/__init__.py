"""A run is a folder: its manifest, append-only shards, and the merged predictions.

run.json            what decides the answers; a run with other settings cannot be resumed
shards/*.jsonl      one line per answer, as the answers come, one file per process
set_aside.jsonl     lines that could not be read, kept for people
failures.jsonl      prompts without an answer in the last attempt, with the reason
.lock               locked while a job works in the folder, so that two jobs never share it
leases/             what independent jobs have claimed, while they work
predictions.jsonl   all answers in the order of the records, written atomically when the run is complete
"""

__all__ = ["RunFolder", "Shard", "flatten"]

from h2htalk_datasets.generation.run_folder.folder import RunFolder
from h2htalk_datasets.generation.run_folder.manifest import flatten
from h2htalk_datasets.generation.run_folder.shards import Shard
