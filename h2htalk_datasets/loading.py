"""Reach the data: where it lies, and load a config."""

__all__ = ["NAME", "load", "path", "read_config"]

from pathlib import Path
from typing import TYPE_CHECKING

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.tasks import select_tasks

if TYPE_CHECKING:
    from datasets import Dataset, Features

NAME = "h2htalk"


def path() -> Path:
    """The folder of the dataset repository: ``load_dataset(str(path()), "ItineraryMiddle")`` works on it."""
    return Path(__file__).parent


def load(task: str, language: str = "en") -> "Dataset":
    """Load one config of the installed package, straight from its Parquet file.

    Args:
        task: a config name, see :data:`h2htalk_datasets.TASKS`.
        language: of the records.

    Returns:
        A ``datasets.Dataset`` in memory, columns as on the dataset card.

    Raises:
        H2HTalkError: the task is unknown, or there are no records in the language.

    """
    from h2htalk_datasets.schema import features

    return read_config(select_tasks([task])[0].name, language, features())


def read_config(name: str, language: str, features: "Features") -> "Dataset":
    """Read a shipped Parquet file, of a task or of a probe set, into memory."""
    import pyarrow.parquet
    from datasets import Dataset, DatasetInfo, Split

    file = path() / "data" / language / f"{name}.parquet"
    if not file.exists():
        languages = sorted(folder.name for folder in (path() / "data").iterdir())
        raise H2HTalkError(f"no records of {name} in the language {language!r}; there are: {', '.join(languages)}")
    table = pyarrow.parquet.read_table(file)
    info = DatasetInfo(features=features, config_name=name, dataset_name=NAME)
    return Dataset(table, info=info, split=Split.TEST)
