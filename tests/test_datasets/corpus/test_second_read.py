"""review.csv: a second reader's marks, 1 to 5, for ten records of each relationship, sampled by a fixed seed."""

import csv
import random
from collections import defaultdict

from h2htalk_datasets import TASKS, load
from h2htalk_datasets.corpus.sources import SOURCES

MARKS = ("specific", "earned", "need_seen", "natural")


def reviews():
    with (SOURCES / "review.csv").open(encoding="utf-8", newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def test_every_relationship_was_reviewed_and_has_an_average_of_at_least_four():
    marks = {identity: [int(row[mark]) for mark in MARKS] for identity, row in reviews().items()}
    ids = defaultdict(list)
    for task in TASKS:
        for row in load(task):
            ids[row["relationship"]].append(row["id"])
    samples = {
        relationship: random.Random(f"second read {relationship}").sample(sorted(own), 10)
        for relationship, own in ids.items()
    }
    assert set(marks) == {identity for sample in samples.values() for identity in sample}
    for relationship, sample in samples.items():
        values = [value for identity in sample for value in marks[identity]]
        assert sum(values) / len(values) >= 4, relationship


def test_marks_are_from_1_to_5_and_differ():
    rows = reviews().values()
    assert all(1 <= int(row[mark]) <= 5 for row in rows for mark in MARKS)
    assert all(1 <= float(row["before"]) <= 5 for row in rows)
    assert len({tuple(row[mark] for mark in MARKS) for row in rows}) > 5
