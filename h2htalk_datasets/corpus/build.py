"""`h2htalk corpus build`: YAML sources to Parquet and a manifest; the same sources always give the same bytes."""

__all__ = ["DATA", "build", "record_row", "summary", "write_parquet"]

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from h2htalk_datasets.columns import features_of
from h2htalk_datasets.corpus.check import Check
from h2htalk_datasets.corpus.checks import check_corpus
from h2htalk_datasets.corpus.sources import SOURCES, source_files
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.memory.checks import check_arcs
from h2htalk_datasets.memory.rows import memory_rows
from h2htalk_datasets.memory.schema import read_arcs
from h2htalk_datasets.planning.checks import check_scenarios
from h2htalk_datasets.planning.rows import planning_rows
from h2htalk_datasets.planning.scenario import read_scenarios
from h2htalk_datasets.probes.checks import check_probes
from h2htalk_datasets.probes.schema import probe_rows, read_probes
from h2htalk_datasets.prompts import render
from h2htalk_datasets.schema import Record, features
from h2htalk_datasets.tasks import MEMORY, PLANNING, PROBES, TASKS

if TYPE_CHECKING:
    from datasets import Features

DATA = SOURCES.parent / "data"
"""The data folder of the package."""

Rows = list[dict[str, Any]]


def build(
    out: Path = DATA, *, partial: bool = False, sources: Path = SOURCES, language: str = "en"
) -> tuple[dict[str, int], list[Check]]:
    """Check the corpus and the probe sets; write one Parquet file per task and probe set, and ``manifest.json``.

    Only English has probe sets.

    Args:
        out: the data folder; files go to ``out/<language>``.
        partial: allow fewer records than Table 1; each relationship must still have its quota.
        sources: folder with one folder of relationships per language.
        language: the language to build.

    Returns:
        Records per task, and all checks.

    Raises:
        H2HTalkError: a check failed; nothing is written. Each line names file, record and rule.

    """
    records, checks = check_corpus(source_files(sources, language), partial=partial, language=language)
    columns = features()
    rows = [record_row(record, columns) for record in records]
    tasks = {task: [row for row in rows if row["task"] == task] for task in TASKS}
    probes, probe_checks = _probe_sets(tasks) if language == "en" else ({}, [])
    checks += probe_checks
    _raise_on_failure(checks)
    folder = out / language
    folder.mkdir(parents=True, exist_ok=True)
    for name, own_rows in tasks.items():
        write_parquet(own_rows, columns, folder / f"{name}.parquet")
    for name, own_rows in probes.items():
        write_parquet(own_rows, features_of(name), folder / f"{name}.parquet")
    manifest = {"language": language} | summary(tasks) | {"fingerprint": fingerprint(rows), "probes": summary(probes)}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
    return manifest["counts"], checks


def _probe_sets(tasks: dict[str, Rows]) -> tuple[dict[str, Rows], list[Check]]:
    """The rows of the probe sets by name, empty if a check failed, and their checks."""
    arcs, scenarios = read_arcs(), read_scenarios()
    checks = [*check_probes("en", tasks), *check_arcs(arcs), *check_scenarios(scenarios, "en")]
    if not all(check.passed for check in checks):
        return {}, checks
    probes = {name: probe_rows(read_probes(name, "en")) for name in PROBES}
    return probes | {PLANNING: planning_rows(scenarios, "en"), MEMORY: memory_rows(arcs, "en")}, checks


def _raise_on_failure(checks: Sequence[Check]) -> None:
    failed = [check for check in checks if not check.passed]
    if failed:
        lines = [f"{c.rule}: {c.value:g}, limit {c.limit:g}\n  " + "\n  ".join(c.offenders[:20]) for c in failed]
        raise H2HTalkError("the corpus is not built, checks failed:\n" + "\n".join(lines))


def summary(sets: dict[str, Rows]) -> dict[str, Any]:
    """Counts and fingerprints of tasks or probe sets, for a manifest."""
    return {
        "counts": {name: len(rows) for name, rows in sets.items()},
        "fingerprints": {name: fingerprint(rows) for name, rows in sets.items()},
    }


def record_row(record: Record, columns: Iterable[str]) -> dict[str, Any]:
    """A record as a row of the dataset, with its messages."""
    values = record.model_dump() | {"messages": render(record)}
    return {column: values[column] for column in columns}


def write_parquet(rows: Rows, columns: "Features", file: Path) -> None:
    """Write rows; the same rows always give the same bytes."""
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.Table.from_pylist(rows, schema=columns.arrow_schema)
    # A dictionary page large enough for all texts of a task stores each system message once.
    pyarrow.parquet.write_table(
        table, file, compression="zstd", compression_level=19, dictionary_pagesize_limit=2**26, row_group_size=2**16
    )
