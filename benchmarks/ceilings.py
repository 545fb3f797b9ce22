"""Reference ceilings: the mean S of a competent independent writer, per config, and what they do to Eq. 3 and 4.

    python benchmarks/ceilings.py demo         # any name that --embedder takes

Writes the ceilings of that embedder into h2htalk_metric/judge/ceilings.yaml (others stay) and, into RESULTS.md, which
share of good, mediocre and bad answers Eq. 4 flags on the scales `paper` and `ceiling` and with `--tau-share 0.1`.
"""

import sys
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np
import yaml
from results import write

from h2htalk_datasets import TASKS, load
from h2htalk_metric import score
from h2htalk_metric.judge.ceilings import FILE, Ceiling, read_ceilings, records_hash
from h2htalk_metric.judge.drift import load_anchors
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.judge.scale import Scale
from h2htalk_metric.metrics.distortions import another_reference, first_half
from h2htalk_metric.metrics.similarity import load_embedder
from h2htalk_metric.stats.intervals import mean_interval

GRADES = {"good": "good", "mediocre": "middling", "bad": "bad"}
"""Quality of the answers to the grade of the anchors whose ratings stand in for a judge."""

HEADER = """\
# Reference ceilings: mean S (0 to 1) of answers by a competent independent writer who did not see the reference, with
# 95% interval, number of answers, and a hash of the config's records. By embedder and config. Written by
# benchmarks/ceilings.py.
"""


def independent_answers() -> list[tuple[dict, str]]:
    """Records with an answer of an independent writer."""
    return [(row, row["alternatives"][0]) for task in TASKS for row in load(task).to_list() if row["alternatives"]]


def composites(pairs: Sequence[tuple[Mapping, str]], embedder: str) -> np.ndarray:
    """S of answers, 0 to 1."""
    return score([answer for _, answer in pairs], [row["reference"] for row, _ in pairs], embedder=embedder).composite


def measure(pairs: Sequence[tuple[Mapping, str]], embedder: str) -> dict[str, Ceiling]:
    """The ceiling of every config."""
    s, ceilings = composites(pairs, embedder), {}
    for task in TASKS:
        mask = np.array([row["task"] == task for row, _ in pairs])
        clusters = [row["relationship"] for row, _ in pairs if row["task"] == task]
        if interval := mean_interval(s[mask], clusters, bounds=(0, 1)):
            ends = (round(value, 4) for value in interval)
            ceilings[task] = Ceiling(*ends, n=int(mask.sum()), records=records_hash(task))
    return ceilings


def store(embedder: str, ceilings: Mapping[str, Ceiling]) -> None:
    """Replace the ceilings of an embedder in the file."""
    content = read_ceilings() if FILE.exists() else {}
    content[embedder] = dict(ceilings)
    rows = {name: {task: one._asdict() for task, one in of_name.items()} for name, of_name in content.items()}
    FILE.write_text(HEADER + yaml.safe_dump(rows, sort_keys=False, default_flow_style=None, width=120), "utf-8")


def answers_by_quality(pairs: Sequence[tuple[dict, str]]) -> dict[str, list[tuple[dict, str]]]:
    """Answers to the judged configs: of the writer, the first half of each, and the reference of another record."""
    judged = [(row, answer) for row, answer in pairs if TASKS[row["task"]].judged]
    records = [row for task in TASKS.values() if task.judged for row in load(task.name).to_list()]
    return {
        "good": judged,
        "mediocre": [(row, first_half(answer, row) or "") for row, answer in judged],
        "bad": [(row, another_reference(row, records)) for row, _ in judged],
    }


def anchor_ratings() -> dict[tuple[str, str], float]:
    """Mean of our own ratings of the anchors, by config and grade."""
    ratings: dict[tuple[str, str], list[float]] = {}
    for anchor in load_anchors():
        ratings.setdefault((anchor.item.rubric.name, anchor.grade), []).append(fmean(anchor.scores.values()))
    return {key: fmean(values) for key, values in ratings.items()}


def flagged_shares(qualities: Mapping[str, list], embedder: str, ceilings: Mapping[str, Ceiling]) -> str:
    """A table: quality by scale and stand-in judge."""
    scale = Scale("ceiling", {task: one.mean for task, one in ceilings.items()}, embedder)
    panels = {
        "paper": Panel(()),
        "ceiling": Panel((), scale=scale),
        "paper, tau-share 0.1": Panel((), tau_share=0.1),
        "ceiling, tau-share 0.1": Panel((), tau_share=0.1, scale=scale),
    }
    rated = anchor_ratings()
    s = {quality: composites(pairs, embedder) for quality, pairs in qualities.items()}
    lines = [
        f"| answers | n | mean S × 100 | judge | {' | '.join(panels)} |",
        "|---|---:|---:|---|" + "---:|" * len(panels),
    ]
    for judge in ("5 for every answer", "ratings of the anchors"):
        shares: dict[str, list[str]] = {quality: [] for quality in qualities}
        for panel in panels.values():
            j, labels = [], []
            for quality, pairs in qualities.items():
                for (row, _), composite in zip(pairs, s[quality], strict=True):
                    rating = 5.0 if judge.startswith("5") else rated[row["task"], GRADES[quality]]
                    j.append(panel.j(row["task"], composite, rating))
                    labels.append(quality)
            flags = panel.flags(np.array(j))
            for quality in qualities:
                of_quality = flags[np.array(labels) == quality]
                shares[quality].append(f"{100 * of_quality.mean():.0f}%")
        for quality, pairs in qualities.items():
            mean = f"{100 * s[quality].mean():.1f}"
            lines.append(f"| {quality} | {len(pairs)} | {mean} | {judge} | {' | '.join(shares[quality])} |")
    return "\n".join(lines)


def ceiling_table(ceilings: Mapping[str, Ceiling]) -> str:
    """The ceilings, times 100."""
    lines = ["| config | n | ceiling, S × 100 | 95% interval |", "|---|---:|---:|---:|"]
    for task, one in ceilings.items():
        lines.append(f"| {task} | {one.n} | {100 * one.mean:.1f} | {100 * one.low:.1f} to {100 * one.high:.1f} |")
    return "\n".join(lines)


def main(embedder: str) -> None:
    """Measure, store, and write the section."""
    name, pairs = load_embedder(embedder).name, independent_answers()
    ceilings = measure(pairs, embedder)
    store(name, ceilings)
    qualities = answers_by_quality(pairs)
    highest = max(composites(qualities["good"], embedder))
    text = f"""\
Mean S of an independent writer who saw the prompt and not the reference, embedder {name}; intervals are clustered by
relationship.

{ceiling_table(ceilings)}

Share of answers of known quality that Eq. 4 flags in the three judged configs. Good: the independent writer's answers
(the ceilings are the means of these same answers; the highest S is {highest:.3f}). Mediocre: the first half of the words
of each. Bad: the reference of another record of the config. No judge was called: either every answer gets 5, or an
answer gets the mean of our own ratings of the anchors of its config and quality (good, middling, bad). `--tau-share 0.1`
flags a tenth of all {3 * len(qualities["good"])} answers together.

{flagged_shares(qualities, embedder, ceilings)}
"""
    write("Which answers does Eq. 4 flag?", text, ["torch", "sentence-transformers"])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
