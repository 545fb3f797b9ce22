"""`h2htalk corpus check`: read every source, measure every gate, name every fault."""

__all__ = ["check", "check_counts", "source_files"]

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from h2htalk_datasets.corpus.checks import Gate, record_gates, reference_gates
from h2htalk_datasets.corpus.sources import SOURCES, load_cast, read_sources
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.schema import Record
from h2htalk_datasets.tasks import TASKS


def source_files(folder: Path = SOURCES, language: str = "en") -> list[Path]:
    """The relationship files of a language, in the order of their numbers."""
    files = sorted((folder / language).glob("*.yaml"))
    if not files:
        raise H2HTalkError(f"no relationship files in {folder / language}")
    return files


def check(files: Sequence[Path], *, partial: bool, language: str = "en") -> tuple[list[Record], list[Gate]]:
    """Read the files and measure all gates.

    Args:
        files: relationship files.
        partial: whether fewer than all fifty may be there; each file's own quota holds in any case.
        language: of the records.

    Returns:
        The records, without messages, and the gates, the schema's first.

    """
    records, faults = read_sources(list(files), language)
    schema = Gate("schema: every file, record and field", len(faults), 0, offenders=faults)
    counts = check_counts(records, partial=partial)
    by_task: dict[str, list[str]] = {task: [] for task in TASKS}
    for record in records:
        by_task[record.task].append(record.reference)
    return records, [schema, counts, _honest(records), *record_gates(records), *reference_gates(by_task)]


def check_counts(records: Sequence[Record], *, partial: bool) -> Gate:
    """Each relationship keeps its quota, and, unless partial, all make Table 1's counts exactly."""
    gate = Gate("counts: each file's quota" + ("" if partial else ", Table 1 in all"), 0, 0)
    quotas = {row.slug: row.quota() for row in load_cast()}
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        found[record.relationship][record.task] += 1
    for slug, counts in found.items():
        if slug not in quotas:
            gate.offenders.append(f"{slug}: not in cast.yaml")
            continue
        wrong = {task: n for task, n in quotas[slug].items() if counts[task] != n}
        gate.offenders += [f"{slug}: {task} has {counts[task]} records, expected {n}" for task, n in wrong.items()]
    if not partial:
        totals = Counter(record.task for record in records)
        wrong = {task.name: task.count for task in TASKS.values() if totals[task.name] != task.count}
        gate.offenders += [f"{task}: {totals[task]} records, Table 1 has {n}" for task, n in wrong.items()]
    gate.figure = len(gate.offenders)
    return gate


def _honest(records: Sequence[Record]) -> Gate:
    """Each relationship has one reference that says no person is there, worded as cast.yaml keeps it."""
    gate = Gate("honest answer: one a file, as cast.yaml keeps it", 0, 0)
    rows = {row.slug: row for row in load_cast()}
    for slug in sorted({record.relationship for record in records}):
        wording = rows[slug].honest if slug in rows else None
        times = sum(wording in r.reference for r in records if r.relationship == slug) if wording else 0
        if times != 1:
            gate.offenders.append(f"{slug}: {wording!r} found {times} times")
    gate.figure = len(gate.offenders)
    return gate
