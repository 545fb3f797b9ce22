"""Does S order answers of known quality? All records with a second reference, answered in five ways.

- second writer: the record's second reference, written from the prompt alone; its S is the reference ceiling;
- first half: the first half of its words;
- another's reference: the reference of another record of the same config, from another relationship;
- echo: the last turn, or what else was given last, said back;
- constant: one decent answer per config, whatever is asked.

    python benchmarks/ordering.py    # the tables, to RESULTS.md
"""

import numpy as np
from results import write

from h2htalk_datasets import TASKS
from h2htalk_datasets.loading import records_of
from h2htalk_datasets.tasks import DIMENSIONS
from h2htalk_metric import score
from h2htalk_metric.metrics.distortions import DISTORTIONS, another_reference, first_half
from h2htalk_metric.metrics.similarity import load_embedder
from h2htalk_metric.stats.intervals import mean_interval
from h2htalk_metric.stats.significance import paired_test

EMBEDDER = "demo"
SECOND, OTHER = "second writer", "another's reference"


def groups(tasks: np.ndarray) -> dict[str, np.ndarray]:
    """Name of a config or dimension to its records."""
    dimensions = np.array([TASKS[task].dimension for task in tasks])
    by_name = {task: tasks == task for task in TASKS}
    by_name |= {f"**{dimension}**": dimensions == dimension for dimension in DIMENSIONS}
    return by_name | {"**all**": np.ones(len(tasks), dtype=bool)}


def lead_table(scores: dict[str, np.ndarray], tasks: np.ndarray, clusters: np.ndarray) -> str:
    """S of every way to answer, and the second writer's lead over the next best."""
    lines = [f"| | n | {' | '.join(scores)} | lead over the next best | above {OTHER} |"]
    lines.append("|---|" + "---:|" * (len(scores) + 3))
    for name, chosen in groups(tasks).items():
        values = {way: one[chosen] for way, one in scores.items()}
        next_best = max(
            (way for way in values if way not in (SECOND, "first half")), key=lambda way: values[way].mean()
        )
        lead = paired_test(values[SECOND], values[next_best], clusters[chosen])
        wins = int((values[SECOND] > values[OTHER]).sum())
        means = " | ".join(f"{one.mean():.1f}" for one in values.values())
        interval = f"{lead.difference:+.1f} ({lead.low:+.1f} to {lead.high:+.1f}, {next_best})"
        lines.append(f"| {name} | {chosen.sum()} | {means} | {interval} | {wins} of {chosen.sum()} |")
    return "\n".join(lines)


def ceiling_table(
    first: dict[str, np.ndarray], both: dict[str, np.ndarray], tasks: np.ndarray, clusters: np.ndarray
) -> str:
    """The reference ceiling with its interval, and S against the better of both references."""
    lines = [
        f"| | n | ceiling: {SECOND} against the first reference | 95% interval | "
        + " | ".join(f"{way}: first, both" for way in both)
        + " |",
        "|---|" + "---:|" * (3 + len(both)),
    ]
    for name, chosen in groups(tasks).items():
        ceiling = mean_interval(first[SECOND][chosen], clusters[chosen].tolist())
        others = " | ".join(f"{first[way][chosen].mean():.1f}, {both[way][chosen].mean():.1f}" for way in both)
        ends = f"{ceiling.low:.1f} to {ceiling.high:.1f}"
        lines.append(f"| {name} | {chosen.sum()} | {ceiling.value:.1f} | {ends} | {others} |")
    return "\n".join(lines)


def main() -> None:
    """Score the five ways and write the tables."""
    pool = [record for task in TASKS for record in records_of(task)]
    records = [record for record in pool if record["alternatives"]]
    second = [record["alternatives"][0] for record in records]
    texts = {
        SECOND: second,
        "first half": [first_half(text, record) or "" for text, record in zip(second, records, strict=True)],
        OTHER: [another_reference(record, pool) for record in records],
        "echo": [DISTORTIONS["echo"]("", record) for record in records],
        "constant": [DISTORTIONS["constant"]("", record) for record in records],
    }
    embedder = load_embedder(EMBEDDER)
    references = [record["reference"] for record in records]
    all_references = [[record["reference"], *record["alternatives"]] for record in records]
    first = {way: 100 * score(answers, references, embedder=embedder).composite for way, answers in texts.items()}
    both = {
        way: 100 * score(texts[way], all_references, embedder=embedder).composite for way in (OTHER, "echo", "constant")
    }
    tasks = np.array([record["task"] for record in records])
    clusters = np.array([record["relationship"] for record in records])
    note = (
        f"S times 100 of five ways to answer the {len(records):,} records that have a second reference; SS by the demo embedder "
        "(all-MiniLM-L6-v2), since BGE-M3's weights were not at hand. The lead is the mean paired difference with its 95% "
        "interval, clustered by relationship."
    )
    parts = [
        note,
        lead_table(first, tasks, clusters),
        "Against both references the better one counts (`h2htalk score --references all`).",
        ceiling_table(first, both, tasks, clusters),
    ]
    write("Does S order answers of known quality?", "\n\n".join(parts), ["torch", "sentence-transformers"])


if __name__ == "__main__":
    main()
