"""audit.csv: what readers found in the records, and how it was fixed."""

import csv

from h2htalk_datasets import TASKS
from h2htalk_datasets.corpus.sources import SOURCES, source_files
from h2htalk_datasets.loading import records_of

KINDS = set(
    "time name place person-unknown instruction fact-invented fact-dropped contradiction body label other".split()
)


READERS = ("editor", "second reader", "third reader", "blind audit")


def findings():
    with (SOURCES / "audit.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_finding_names_a_record_or_a_relationship_a_kind_and_a_fix():
    ids = {record["id"] for task in TASKS for record in records_of(task)}
    relationships = {file.stem for file in source_files()}
    for row in findings():
        assert row["id"] in ids or row["id"].split()[0] in relationships, row
        assert row["kind"] in KINDS and row["reader"] in READERS and row["fix"], row


def test_both_readers_read_every_relationship():
    numbers = {(row["reader"], row["id"].removeprefix("en-").lstrip("0")[:2].rstrip("-")) for row in findings()}
    for file in source_files():
        number = str(int(file.stem[:2]))
        assert {("editor", number), ("second reader", number)} <= numbers, file.stem
