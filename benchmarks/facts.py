"""What the fact check sees: second references, and 150 of them falsified by hand.

Each falsified answer has one or two facts changed: a name or place that the prompt lacks, another person of the prompt
(known-name), another clock time, date, weekday or number.

    python benchmarks/facts.py    # to RESULTS.md
"""

import json
from pathlib import Path

from results import write

from h2htalk_datasets import TASKS
from h2htalk_datasets.loading import records_of
from h2htalk_metric.metrics.facts import contradictions

FALSIFIED = Path(__file__).with_name("facts") / "falsified.jsonl"
GROUPS = {
    "name or place that the prompt lacks": {"name", "place"},
    "clock time": {"time"},
    "name or place that the prompt lacks, or clock time": {"name", "place", "time"},
    "another person of the prompt": {"known-name"},
    "any name, place or clock time": {"name", "place", "known-name", "time"},
    "weekday or date": {"day", "date"},
    "number": {"number"},
    "any": {"name", "place", "known-name", "time", "day", "date", "number", "other"},
}
"""What was changed, to the kinds of changes."""


def main() -> None:
    """Count flagged answers and write the table."""
    records = {record["id"]: record for task in TASKS for record in records_of(task) if record["alternatives"]}
    falsified = [json.loads(line) for line in FALSIFIED.read_text("utf-8").splitlines()]
    unchanged = [bool(contradictions(record["alternatives"][0], record)) for record in records.values()]
    false_alarms = sum(unchanged) / len(unchanged)
    lines = ["| changed | answers | flagged (recall) | precision |", "|---|---:|---:|---:|"]
    for group, kinds in GROUPS.items():
        chosen = [one for one in falsified if kinds & set(one["kinds"])]
        flagged = sum(bool(contradictions(one["prediction"], records[one["id"]])) for one in chosen)
        recall = flagged / len(chosen)
        lines.append(f"| {group} | {len(chosen)} | {flagged} ({recall:.2f}) | {recall / (recall + false_alarms):.2f} |")
    note = (
        f"The check flags {sum(unchanged)} of {len(unchanged):,} second references ({100 * false_alarms:.1f}%), which were read "
        f"for facts. {len(falsified)} of them were falsified by hand, one or two facts each. Precision is for as many "
        "unchanged as falsified answers."
    )
    write("What the fact check sees", note + "\n\n" + "\n".join(lines), [])


if __name__ == "__main__":
    main()
