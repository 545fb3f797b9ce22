"""Answers of known quality: their design effects, and the variance that `h2htalk plan` ships.

Over all records:

- demo model: SmolLM2-135M-Instruct, greedy;
- another's reference: the reference of another record of the same config, from another relationship;
- constant: one decent answer per config.

Over the records with a second reference: the second writer (good), the first half of the words (mediocre), and constant.

    python benchmarks/proxies.py RUN    # to RESULTS.md and h2htalk_metric/stats/proxy_differences.json

RUN is a folder of the demo model's answers to all records. It may be a run over an earlier edition of the dataset, which
has the same ids: its answers are then scored against the references of this one, and the results say so.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from results import write

from h2htalk_datasets import TASKS
from h2htalk_datasets.files import read_json_lines
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.loading import records_of
from h2htalk_metric import score
from h2htalk_metric.metrics.distortions import CONSTANTS, another_reference, first_half
from h2htalk_metric.metrics.similarity import Embedder, load_embedder
from h2htalk_metric.stats import planning
from h2htalk_metric.stats.clusters import ClusterSums
from h2htalk_metric.stats.intervals import design_effects

EMBEDDER = "demo"
PROXY_FILE = Path(planning.__file__).with_name("proxy_differences.json")
MODEL, OTHER = "demo model", "another's reference"

Records = Sequence[Mapping[str, Any]]


def cluster_sums(values: np.ndarray, records: Records) -> ClusterSums:
    """Values of all records, summed per config and relationship."""
    tasks = np.array([record["task"] for record in records])
    relationships = np.array([record["relationship"] for record in records])
    return ClusterSums.of(
        {task: values[tasks == task] for task in TASKS}, {task: relationships[tasks == task] for task in TASKS}
    )


def scored(texts: Mapping[str, Sequence[str]], records: Records, embedder: Embedder) -> dict[str, np.ndarray]:
    """S times 100 of every way to answer, shape (records,)."""
    references = [record["reference"] for record in records]
    return {way: 100 * score(answers, references, embedder=embedder).composite for way, answers in texts.items()}


def effects_table(sums: Mapping[str, ClusterSums]) -> str:
    """Design effects per config, one column per way to answer."""
    effects = {way: design_effects(one) for way, one in sums.items()}
    lines = [f"| config | {' | '.join(effects)} |", "|---|" + "---:|" * len(effects)]
    lines += [f"| {task} | {' | '.join(f'{one[task]:.2f}' for one in effects.values())} |" for task in TASKS]
    return "\n".join(lines)


def write_proxy_file(difference: ClusterSums) -> None:
    """Store what `h2htalk plan` needs of the differences."""
    content = {
        "tasks": list(difference.tasks),
        "sums": difference.sums.round(3).tolist(),
        "counts": difference.counts.astype(int).tolist(),
        "squares": difference.squares.round(3).tolist(),
    }
    PROXY_FILE.write_text(json.dumps(content, separators=(",", ":")) + "\n", "utf-8")


def main(folder: Path) -> None:
    """Score the answers, and write the tables and the file."""
    records, embedder = [record for task in TASKS for record in records_of(task)], load_embedder(EMBEDDER)
    answers = {line["id"]: line["prediction"] for line in read_json_lines(folder / "predictions.jsonl")}
    texts = {
        MODEL: [answers[record["id"]] for record in records],
        OTHER: [another_reference(record, records) for record in records],
        "constant": [CONSTANTS["en"][record["task"]] for record in records],
    }
    values = scored(texts, records, embedder)
    sums = {way: cluster_sums(one, records) for way, one in values.items()}
    difference = cluster_sums(values[MODEL] - values[OTHER], records)
    write_proxy_file(difference)
    with_second = [record for record in records if record["alternatives"]]
    second = [record["alternatives"][0] for record in with_second]
    known = {
        "second writer": second,
        "first half of it": [first_half(text, record) or "" for text, record in zip(second, with_second, strict=True)],
        "constant": [CONSTANTS["en"][record["task"]] for record in with_second],
    }
    known_sums = {way: cluster_sums(one, with_second) for way, one in scored(known, with_second, embedder).items()}
    own_prompts = json.loads((folder / "run.json").read_text("utf-8"))["dataset"]["fingerprint"] == fingerprint(records)
    earlier = "" if own_prompts else " The demo model answered the prompts of an earlier edition of the dataset."
    parts = [
        f"Variance of the mean over that of as many independent records, over all {len(records):,} records; clusters are "
        "relationships, SS by the demo embedder. The last column is the paired difference whose variance "
        f"`h2htalk plan` uses.{earlier}",
        effects_table(sums | {f"{MODEL} minus another's": difference}),
        f"The same over the {len(with_second):,} records that have a second reference: good, mediocre and bad answers.",
        effects_table(known_sums),
    ]
    write("Design effects", "\n\n".join(parts), ["torch"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
