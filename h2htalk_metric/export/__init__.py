"""The benchmark as a task of another evaluation harness: same records, same prompts, same composite.

An export is a folder that can be moved: records with rendered prompts as JSON lines, ``h2htalk_export.json`` with their
source, and the task files of the harness, copied from ``files/``. The task files score with the installed `h2htalk`.
"""

__all__ = ["HARNESSES", "export"]

from h2htalk_metric.export.folder import HARNESSES, export
