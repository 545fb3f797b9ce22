"""Exports: the benchmark as a task of another evaluation harness, and the results of a run for other tools.

The benchmark is a folder that can be moved: records with rendered prompts as JSON lines, ``h2htalk_export.json`` with
their source, and the task files of the harness, copied from ``files/``. The task files score with the installed
`h2htalk`.
"""

__all__ = ["FORMATS", "HARNESSES", "Source", "export", "export_results"]

from h2htalk_metric.export.folder import HARNESSES, export
from h2htalk_metric.export.source import Source
from h2htalk_metric.export.write_results import FORMATS, export_results
