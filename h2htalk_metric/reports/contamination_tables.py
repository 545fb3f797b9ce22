"""The tables of `h2htalk check-contamination`."""

__all__ = ["by_config", "by_record"]

from collections import Counter

from h2htalk_datasets.contamination import NGRAM, PARTS, Contamination
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.reports.table import Column, Row, Table, numbers


def by_config(result: Contamination) -> Table:
    """How many prompts and references of each config overlap, and how many are too short to tell."""
    found = Counter((overlap.task, overlap.part) for overlap in result.overlaps)
    rows = []
    for task in TASKS:
        cells = [f"{counts[task, part]:,}" for part in PARTS for counts in (found, result.checked, result.too_short)]
        rows.append(Row((task, *cells)))
    titles = (title for part in PARTS for title in (f"{part}s", "of", "too short"))
    return Table(
        f"Records that share {NGRAM} consecutive words with the file",
        (Column("config", "text"), *numbers(*titles)),
        tuple(rows),
        notes=(f"Nothing can be said about texts with fewer than {NGRAM} words. Paraphrases are not found.",),
    )


def by_record(result: Contamination, most: int) -> Table:
    """The records with the largest overlaps."""
    rows = [
        Row((one.id, one.part, f"{100 * one.shared / one.total:.0f}%", f"{one.shared}", f"{one.place}", one.example))
        for one in result.overlaps[:most]
    ]
    columns = (
        Column("record", "text"),
        Column("part", "text"),
        *numbers("share", "shared", "text number"),
        Column("first shared words", "text"),
    )
    more = len(result.overlaps) - len(rows)
    return Table("The largest overlaps", columns, tuple(rows), notes=(f"{more} more are not shown.",) if more else ())
