"""Does S order answers of known quality? All records with a second reference, answered in five ways.

- second writer: the record's second reference, written from the prompt alone; its S is the reference ceiling;
- first half: the first half of its words;
- another's reference: the reference of another record of the same config, from another relationship;
- echo: the last turn, or what else was given last, said back;
- constant: one decent answer per config, whatever is asked.

    python benchmarks/ordering.py [--language zh]    # the tables, to RESULTS.md

English answers get S. For Chinese ones no embedder is at hand offline, so they get the mean of the six lexical components.
"""

import argparse
from collections.abc import Sequence

import numpy as np
from results import write

from h2htalk_datasets import TASKS
from h2htalk_datasets.loading import records_of
from h2htalk_datasets.tasks import DIMENSIONS
from h2htalk_metric import score
from h2htalk_metric.metrics.distortions import another_reference, constant, echo, first_half
from h2htalk_metric.metrics.lexical import lexical
from h2htalk_metric.metrics.similarity import load_embedder
from h2htalk_metric.stats.intervals import mean_interval
from h2htalk_metric.stats.significance import paired_test

EMBEDDER = "demo"
NAMES = {"en": "English", "zh": "Chinese"}
MEASURE = {
    "en": "S times 100, SS by the demo embedder (all-MiniLM-L6-v2), since BGE-M3's weights were not at hand",
    "zh": "the mean of the six lexical components times 100, on words cut by jieba, since no Chinese embedder was at hand",
}
SECOND, OTHER = "second writer", "another's reference"


def scores_of(answers: Sequence[str], references: Sequence[Sequence[str]], language: str) -> np.ndarray:
    """Scores times 100, each against the better of the references of an item."""
    if language == "en":
        return 100 * score(answers, references, language=language, embedder=load_embedder(EMBEDDER)).composite
    best = [
        max(np.mean(lexical(answer, text, language)) for text in texts)
        for answer, texts in zip(answers, references, strict=True)
    ]
    return 100 * np.array(best)


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
    options = argparse.ArgumentParser()
    options.add_argument("--language", choices=list(MEASURE), default="en")
    language = options.parse_args().language
    pool = [record for task in TASKS for record in records_of(task, language)]
    records = [record for record in pool if record["alternatives"]]
    second = [record["alternatives"][0] for record in records]
    texts = {
        SECOND: second,
        "first half": [first_half(text, record) or "" for text, record in zip(second, records, strict=True)],
        OTHER: [another_reference(record, pool) for record in records],
        "echo": [echo("", record) for record in records],
        "constant": [constant("", record) for record in records],
    }
    references = [[record["reference"]] for record in records]
    both = [[record["reference"], *record["alternatives"]] for record in records]
    first_scores = {way: scores_of(answers, references, language) for way, answers in texts.items()}
    both_scores = {way: scores_of(texts[way], both, language) for way in (OTHER, "echo", "constant")}
    tasks = np.array([record["task"] for record in records])
    clusters = np.array([record["relationship"] for record in records])
    note = (
        f"Five ways to answer the {len(records):,} records that have a second reference: {MEASURE[language]}. The lead is "
        "the mean paired difference with its 95% interval, clustered by relationship."
    )
    parts = [
        note,
        lead_table(first_scores, tasks, clusters),
        "Against both references the better one counts (`h2htalk score --references all`).",
        ceiling_table(first_scores, both_scores, tasks, clusters),
    ]
    edition = "" if language == "en" else f" ({NAMES[language]} edition)"
    packages = {"en": ["torch", "sentence-transformers"], "zh": ["jieba"]}[language]
    write(f"Does S order answers of known quality?{edition}", "\n\n".join(parts), packages)


if __name__ == "__main__":
    main()
