"""The benchmark as a task of another evaluation harness: the same records, the same prompts, the same composite.

An export is a folder that can be moved: records with rendered prompts as JSON lines, ``h2htalk_export.json`` with what
they were made from, and the task files of the harness, copied as they stand in ``files/``. These score through
the installed `h2htalk`.
"""

__all__ = ["HARNESSES", "export"]

from h2htalk_metric.export.folder import HARNESSES, export
