"""Runs without a model: references with words left out, scored with embeddings of hashed words."""

import gzip
import json
import random
import zlib
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.generation.requests import chosen_rows, prompt_of
from h2htalk_datasets.prompts import SAP
from h2htalk_datasets.tasks import TASKS, select_tasks
from h2htalk_metric.metrics.lexical import LEXICAL, lexical
from h2htalk_metric.metrics.similarity import Embedder
from h2htalk_metric.runs.scoring import score_run


class HashedWords:
    """Stands in for an embedding model: counts words in 64 buckets."""

    def encode(self, texts, **_):
        vectors = np.zeros((len(texts), 64))
        for line, text in zip(vectors, texts, strict=True):
            for word in text.split():
                line[zlib.crc32(word.encode()) % 64] += 1
        return vectors


def _manifest(rows: list[dict], name: str, tasks: str, limit: int | None, sap: list[str]) -> dict:
    """As generation writes it."""
    prompts = [prompt_of(row, set(sap) if len(sap) < len(SAP) else True) for row in rows]
    return {
        "format": 1,
        "dataset": {
            "fingerprint": fingerprint(rows),
            "tasks": [task.name for task in select_tasks(tasks)],
            "limit": limit,
            "n": len(rows),
        },
        "prompts": {
            "sap": sap,
            "hash": fingerprint({"id": prompt.id, "messages": prompt.messages} for prompt in prompts),
        },
        "model": {"engine": "transformers", "name": name, "revision": None, "dtype": "float32"},
        "generation": {"batch_size": 8, "temperature": 0.0, "top_p": 1.0, "seed": 0},
        "software": {"torch": "2.13.0"},
    }


def make_run(
    folder: Path, name: str, *, limit=None, kept=0.7, seed=0, tasks="all", sap=tuple(SAP), embedder="hashed-words"
) -> Path:
    """A scored run folder whose answers keep a share of each reference's words."""
    rows = chosen_rows(tasks, limit)
    manifest = _manifest(rows, name, tasks, limit, sorted(sap) if len(sap) < len(SAP) else list(SAP))
    draw = random.Random(seed)
    (folder / "shards").mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(manifest))
    with (folder / "predictions.jsonl").open("w") as file:
        for row in rows:
            text = " ".join(word for word in row["reference"].split() if draw.random() < kept)
            line = {"id": row["id"], "prediction": text, "task": row["task"], "finish_reason": "stop"}
            file.write(json.dumps(line | {"prompt_tokens": 9, "new_tokens": len(text.split())}) + "\n")
    score_run(folder, Embedder(embedder, HashedWords().encode))
    return folder


@lru_cache
def _records(count):
    return chosen_rows(limit=count // len(TASKS))


def packed(tree: dict, **changes) -> bytes:
    """A submission's file."""
    return gzip.compress(json.dumps(tree | changes).encode())


def edited(tree: dict, edit: Callable[[dict], object]) -> bytes:
    """A submission's file after an edit of what it holds."""
    copy = json.loads(json.dumps(tree))
    edit(copy)
    return packed(copy)


def variant(tree: dict, number: int, words: int = 1) -> bytes:
    """A run of equally many records a task under another name, its answers changed and its claims put right."""
    copy = json.loads(json.dumps(tree))
    copy["model"] = f"Model-{number:04}"
    sums = {task: Counter() for task in copy["claims"]["tasks"]}
    records = _records(len(copy["answers"]))
    for answer, record in zip(copy["answers"], records, strict=True):
        answer["prediction"] += f" variant{number}" * words
        values = lexical(answer["prediction"], record["reference"], "en")
        composite = (sum(values) + answer["ss"]) / 7
        sums[record["task"]].update(dict(zip(LEXICAL, values, strict=True)) | {"composite": composite})
    for task, sum_ in sums.items():
        copy["claims"]["tasks"][task] |= {name: value * len(sums) / len(records) for name, value in sum_.items()}
    return packed(copy)
