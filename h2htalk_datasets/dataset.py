"""Reach the data: where it lies, load a config, make the bare name ``h2htalk`` resolve."""

__all__ = ["load", "path", "prepare_dataset", "read_config", "register"]

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from h2htalk_datasets.tasks import TASKS, select_tasks

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
        H2HTalkError: the task is unknown.

    """
    from h2htalk_datasets.records import features

    return read_config(select_tasks([task])[0].name, language, features())


def read_config(name: str, language: str, features: "Features") -> "Dataset":
    """Read a shipped Parquet file, of a task or of a probe set, into memory."""
    import pyarrow.parquet
    from datasets import Dataset, DatasetInfo, Split

    table = pyarrow.parquet.read_table(path() / "data" / language / f"{name}.parquet")
    info = DatasetInfo(features=features, config_name=name, dataset_name=NAME)
    return Dataset(table, info=info, split=Split.TEST)


def prepare_dataset() -> Path:
    """Fill the `datasets` cache, so that ``load_dataset("h2htalk", TASK)`` resolves without the Hub, probe sets too.

    `datasets` looks a bare name up on the Hub and then in its cache; a builder prepared under that name is
    found there. Idempotent; honours HF_HOME. Returns the folder in the cache.
    """
    import datasets

    from h2htalk_datasets.builder import H2HTalk, manifest
    from h2htalk_datasets.fingerprint import fingerprint
    from h2htalk_datasets.probes import PROBES

    content = fingerprint([manifest()])
    bars = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        for name in (*TASKS, *PROBES):
            # The same hash for all, since `datasets` lists as configs what shares version and hash.
            builder = H2HTalk(config_name=name, dataset_name=NAME, hash=content)
            builder.download_and_prepare()
            # The newest folder wins where several corpora were prepared.
            os.utime(builder.cache_dir)
    finally:
        if not bars:
            datasets.enable_progress_bars()
    return Path(builder.cache_dir).parents[2]


def register() -> None:
    """Make ``load_dataset("h2htalk", TASK)`` resolve at once in this process, without asking the Hub first."""
    import datasets.load

    prepare_dataset()
    original = datasets.load.dataset_module_factory
    if getattr(original, "knows_h2htalk", False):
        return

    def factory(path: str, *args: Any, **kwargs: Any) -> Any:
        if path == NAME:
            return datasets.load.CachedDatasetModuleFactory(NAME, cache_dir=kwargs.get("cache_dir")).get_module()
        return original(path, *args, **kwargs)

    factory.knows_h2htalk = True  # type: ignore[attr-defined]
    datasets.load.dataset_module_factory = factory
