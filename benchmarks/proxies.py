"""Answers of known quality over all records: their design effects, and the variance that `h2htalk plan` ships.

- demo model: SmolLM2-135M-Instruct, greedy, all 4,650 records (a scored run folder, its SS by the demo embedder);
- another's reference: the reference of another record of the same config, from another relationship;
- first half: the first half of the words of the record's own reference.

    python benchmarks/proxies.py RUN    # to RESULTS.md and h2htalk_metric/stats/proxy_differences.json
"""

import json
import sys
from pathlib import Path

import numpy as np
from results import write

from h2htalk_datasets import TASKS
from h2htalk_metric import score
from h2htalk_metric.metrics.distortions import another_reference, first_half
from h2htalk_metric.metrics.similarity import load_embedder
from h2htalk_metric.runs.run import Run
from h2htalk_metric.runs.scoring import read_stored_scores
from h2htalk_metric.stats import planning
from h2htalk_metric.stats.clusters import ClusterSums
from h2htalk_metric.stats.intervals import design_effects

EMBEDDER = "demo"
PROXY_FILE = Path(planning.__file__).with_name("proxy_differences.json")


def cluster_sums(values: np.ndarray, records: list[dict]) -> ClusterSums:
    """Values of all records, summed per config and relationship."""
    tasks = np.array([record["task"] for record in records])
    relationships = np.array([record["relationship"] for record in records])
    return ClusterSums.of(
        {task: values[tasks == task] for task in TASKS}, {task: relationships[tasks == task] for task in TASKS}
    )


def main(folder: str) -> None:
    """Score the answers, and write the table and the file."""
    run = Run(folder)
    records, embedder = run.records, load_embedder(EMBEDDER)
    references = [record["reference"] for record in records]
    texts = {
        "another's reference": [another_reference(record, records) for record in records],
        "first half": [first_half(record["reference"], record) or "" for record in records],
    }
    stored = read_stored_scores(run)[0].items
    assert stored["id"].tolist() == [record["id"] for record in records]
    values = {"demo model": 100 * stored["composite"].to_numpy()}
    values |= {way: 100 * score(answers, references, embedder=embedder).composite for way, answers in texts.items()}
    sums = {way: cluster_sums(one, records) for way, one in values.items()}
    sums["demo model minus another's"] = cluster_sums(values["demo model"] - values["another's reference"], records)
    difference = sums["demo model minus another's"]
    content = {
        "tasks": list(difference.tasks),
        "sums": difference.sums.round(3).tolist(),
        "counts": difference.counts.astype(int).tolist(),
        "squares": difference.squares.round(3).tolist(),
    }
    PROXY_FILE.write_text(json.dumps(content, separators=(",", ":")) + "\n", "utf-8")
    effects = {way: design_effects(one) for way, one in sums.items()}
    lines = [f"| config | {' | '.join(effects)} |", "|---|" + "---:|" * len(effects)]
    lines += [f"| {task} | {' | '.join(f'{one[task]:.2f}' for one in effects.values())} |" for task in TASKS]
    note = (
        f"Design effects of answers of known quality over all {len(records):,} records, clusters are relationships; SS by the "
        "demo embedder. The last column is the paired difference whose variance `h2htalk plan` uses."
    )
    write("Design effects", note + "\n\n" + "\n".join(lines), ["torch"])


if __name__ == "__main__":
    main(sys.argv[1])
