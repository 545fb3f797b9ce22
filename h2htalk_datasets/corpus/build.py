"""`h2htalk corpus build`: YAML sources to Parquet and a manifest, the same bytes for the same sources."""

__all__ = ["build"]

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from h2htalk_datasets.corpus.check import check, source_files
from h2htalk_datasets.corpus.checks import Gate
from h2htalk_datasets.corpus.sources import SOURCES
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.probes.checks import check_probes
from h2htalk_datasets.probes.schema import PROBES, probe_features, probe_rows, read_probes
from h2htalk_datasets.prompts import render
from h2htalk_datasets.schema import Record, features
from h2htalk_datasets.tasks import TASKS

if TYPE_CHECKING:
    from datasets import Features

DATA = SOURCES.parent / "data"


def build(
    out: Path = DATA, *, partial: bool = False, sources: Path = SOURCES, language: str = "en"
) -> tuple[dict[str, int], list[Gate]]:
    """Check the corpus and the probe sets, and write a Parquet file for each config and set, and ``manifest.json``.

    Args:
        out: the data folder; files go to ``out/<language>``.
        partial: allow fewer than Table 1's counts, as long as each file keeps its quota.
        sources: folder with ``cast.yaml`` and a folder of relationships per language.
        language: which sources to build.

    Returns:
        Records per task, and the gates that were measured.

    Raises:
        H2HTalkError: a gate is red; nothing is written. Each line names file, record and rule.

    """
    records, gates = check(source_files(sources, language), partial=partial, language=language)
    rows = [_row(record) for record in records]
    configs = {task: [row for row in rows if row["task"] == task] for task in TASKS}
    gates += check_probes(language, configs)
    red = [gate for gate in gates if not gate.green]
    if red:
        lines = [f"{g.rule}: {g.figure:g}, limit {g.limit:g}\n  " + "\n  ".join(g.offenders[:20]) for g in red]
        raise H2HTalkError("the corpus is not built, a gate is red:\n" + "\n".join(lines))
    folder = out / language
    folder.mkdir(parents=True, exist_ok=True)
    probes = {name: probe_rows(read_probes(name, language)) for name in PROBES}
    for columns, sets in ((features(), configs), (probe_features(), probes)):
        for name, chosen in sets.items():
            _write_parquet(chosen, columns, folder / f"{name}.parquet")
    manifest = {"language": language} | _summary(configs) | {"fingerprint": fingerprint(rows)}
    manifest["probes"] = _summary(probes)
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
    return manifest["counts"], gates


def _summary(sets: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    return {
        "counts": {name: len(rows) for name, rows in sets.items()},
        "fingerprints": {name: fingerprint(rows) for name, rows in sets.items()},
    }


def _row(record: Record) -> dict[str, Any]:
    row = record.model_dump()
    row["messages"] = render(record)
    return row


def _write_parquet(rows: Sequence[dict[str, Any]], columns: "Features", file: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.Table.from_pylist(list(rows), schema=columns.arrow_schema)
    # A dictionary large enough for a config's texts stores each system text once.
    pyarrow.parquet.write_table(
        table, file, compression="zstd", compression_level=19, dictionary_pagesize_limit=2**26, row_group_size=2**16
    )
