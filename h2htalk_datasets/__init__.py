"""The data of H2HTalk: tasks, records, prompts, persona, the dataset builder, and generation.

Example:
    >>> from h2htalk_datasets import TASKS, load, render
    >>> rows = load("ItineraryMiddle")
    >>> render(rows[0], sap=False)[1]["role"]
    'user'

"""

__all__ = ["SAP", "TASKS", "authors_release", "load", "path", "register", "render"]

from h2htalk_datasets.authors_release import authors_release
from h2htalk_datasets.loading import load, path, register
from h2htalk_datasets.prompts import SAP, render
from h2htalk_datasets.tasks import TASKS
