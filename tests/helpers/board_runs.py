"""Runs without a model: references with words left out, scored with embeddings of hashed words; and submissions."""

import gzip
import json
import random
import zlib
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from h2htalk_datasets.generation.config import Settings, build_manifest
from h2htalk_datasets.generation.requests import chosen_rows, principles_of, prompt_of
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.metrics.lexical import LEXICAL, lexical
from h2htalk_metric.metrics.similarity import Embedder
from h2htalk_metric.runs.scoring import score_run


class HashedWords:
    """Stands in for an embedding model: counts words in 64 buckets."""

    def encode(self, texts, **_):
        vectors = np.zeros((len(texts), 64))
        for vector, text in zip(vectors, texts, strict=True):
            for word in text.split():
                vector[zlib.crc32(word.encode()) % 64] += 1
        return vectors


def make_run(
    folder: Path,
    name: str,
    *,
    limit=None,
    share=0.7,
    seed=0,
    tasks="all",
    sap="all",
    embedder="hashed-words",
    language="en",
) -> Path:
    """A scored run folder whose answers are a share of the words (in Chinese of the characters) of each reference."""
    records = chosen_rows(tasks, limit, language)
    prompts = [prompt_of(record, principles_of(sap)) for record in records]
    settings = Settings(model=name, tasks=tasks, language=language, limit=limit, sap=sap)
    model = {"engine": "transformers", "name": name, "revision": None, "dtype": "float32"}
    manifest = build_manifest(settings, records=records, prompts=prompts, model=model)
    generator = random.Random(seed)
    (folder / "shards").mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(manifest))
    with (folder / "predictions.jsonl").open("w") as file:
        for record in records:
            separator = " " if record["language"] == "en" else ""
            pieces = record["reference"].split() if separator else record["reference"]
            text = separator.join(piece for piece in pieces if generator.random() < share)
            line = {"id": record["id"], "prediction": text, "task": record["task"], "finish_reason": "stop"}
            file.write(json.dumps(line | {"prompt_tokens": 9, "new_tokens": len(text.split())}) + "\n")
    score_run(folder, Embedder(embedder, HashedWords().encode))
    return folder


@lru_cache
def _records(count):
    return chosen_rows(limit=count // len(TASKS))


def packed(tree: dict, **changes) -> bytes:
    """The file of a submission."""
    return gzip.compress(json.dumps(tree | changes).encode())


def edited(tree: dict, edit: Callable[[dict], object]) -> bytes:
    """The file of a submission after an edit of its content."""
    copy = json.loads(json.dumps(tree))
    edit(copy)
    return packed(copy)


def variant(tree: dict, number: int, words: int = 1) -> bytes:
    """A submission under another name with changed answers and claims that fit; all tasks have equally many records."""
    copy = json.loads(json.dumps(tree))
    copy["model"] = f"Model-{number:04}"
    sums = {task: Counter() for task in copy["claims"]["tasks"]}
    records = _records(len(copy["answers"]))
    for answer, record in zip(copy["answers"], records, strict=True):
        answer["prediction"] += f" variant{number}" * words
        values = lexical(answer["prediction"], record["reference"], "en")
        composite = (sum(values) + answer["ss"]) / 7
        sums[record["task"]].update(dict(zip(LEXICAL, values, strict=True)) | {"composite": composite})
    for task, task_sums in sums.items():
        copy["claims"]["tasks"][task] |= {name: value * len(sums) / len(records) for name, value in task_sums.items()}
    return packed(copy)
