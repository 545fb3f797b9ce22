"""What every probe command does with its result."""

__all__ = ["write_and_print"]

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from h2htalk_metric.runs.run import Run


def write_and_print(run: "Run", probe: str, result: Mapping[str, Any]) -> None:
    """Write probes/NAME.json and NAME.md, show the section, and add it to the report of a scored run."""
    from h2htalk_metric.probes.results import write_result
    from h2htalk_metric.reports.report import probe_section, write_probe_report
    from h2htalk_metric.reports.terminal import print_sections

    files = [write_result(run, probe, result), *write_probe_report(run, probe, result)]
    print_sections([probe_section(probe, result)], width=160)
    print(f"written: {', '.join(map(str, files))}")
