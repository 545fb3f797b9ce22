"""What a sweep did: a row per model with its state, Overall, time and tokens."""

__all__ = ["summary_table", "write_summary"]

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from h2htalk_datasets.files import write_atomically
from h2htalk_metric.reports.markdown import markdown
from h2htalk_metric.reports.table import Column, Row, Section, Table, numbers, shown
from h2htalk_metric.sweep.sweep import EntryResult

_MINUTE, _HOUR = 60, 3600


def summary_table(results: Sequence[EntryResult]) -> Table:
    """A row per model, in the order of the file."""
    rows = []
    for result in results:
        state = "failed" if result.failure else "done" if result.is_scored else "open"
        cells = (
            result.name,
            state,
            shown(result.overall),
            _time(result.seconds),
            f"{result.prompt_tokens:,}",
            f"{result.new_tokens:,}",
            result.failure,
        )
        rows.append(Row(cells))
    total = ("all", "", "", _time(sum(one.seconds for one in results)), *_token_sums(results), "")
    return Table(
        "The sweep",
        (
            Column("model", "text"),
            Column("state", "text"),
            *numbers("Overall", "time", "prompt tokens", "new tokens"),
            Column("error", "text"),
        ),
        (*rows, Row(total, emphasized=True)),
        notes=(
            "Time is that of all processes of a model: generation, scoring and judging, also of attempts that failed. "
            "Tokens are those of the generated answers.",
        ),
    )


def write_summary(folder: Path, results: Sequence[EntryResult]) -> None:
    """Write ``summary.json`` and ``summary.md``."""
    write_atomically(folder / "summary.json", json.dumps([asdict(one) for one in results], indent=1) + "\n")
    write_atomically(folder / "summary.md", markdown("Sweep", [Section("sweep", "Models", (summary_table(results),))]))


def _token_sums(results: Sequence[EntryResult]) -> tuple[str, str]:
    return f"{sum(one.prompt_tokens for one in results):,}", f"{sum(one.new_tokens for one in results):,}"


def _time(seconds: float) -> str:
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < _HOUR:
        return f"{seconds / _MINUTE:.1f} min"
    return f"{seconds / _HOUR:.1f} h"
