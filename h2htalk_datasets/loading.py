"""Load the shipped data, from the package or by ``load_dataset("h2htalk", TASK)``."""

__all__ = [
    "NAME",
    "load",
    "load_memory",
    "load_probe",
    "manifest",
    "path",
    "prepare_dataset",
    "records_of",
    "register",
]

import json
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from h2htalk_datasets.errors import H2HTalkError, did_you_mean
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.languages import LANGUAGES, language_of
from h2htalk_datasets.tasks import MEMORY, PROBE_SETS, select_tasks

if TYPE_CHECKING:
    from datasets import Dataset

NAME = "h2htalk"


def path() -> Path:
    """The folder of the dataset repository: ``load_dataset(str(path()), "ItineraryMiddle")`` works on it."""
    return Path(__file__).parent


def manifest(language: str = "en") -> dict[str, Any]:
    """Counts and content fingerprints of the shipped data; those of the probe sets are under ``probes``."""
    return json.loads((path() / "data" / language / "manifest.json").read_text("utf-8"))


def load(task: str, language: str = "en") -> "Dataset":
    """Load the records of one task from the installed package.

    Args:
        task: name of the task, see :data:`h2htalk_datasets.TASKS`.
        language: language of the records.

    Returns:
        A ``datasets.Dataset`` in memory with the columns of the dataset card.

    Raises:
        H2HTalkError: the task or the language is unknown.

    """
    return _read_parquet(select_tasks([task])[0].name, language_of(language).code)


def records_of(task: str, language: str = "en") -> list[dict[str, Any]]:
    """The records of one task as plain dicts, as :func:`load` has them; the file is read once per process.

    Args:
        task: name of the task.
        language: language of the records.

    Returns:
        New dicts with the columns of the dataset card. Their nested lists are shared: do not change them.

    """
    return [dict(row) for row in _rows(task, language)]


@cache
def _rows(task: str, language: str) -> tuple[dict[str, Any], ...]:
    return tuple(load(task, language).to_list())


def load_probe(name: str, language: str = "en") -> "Dataset":
    """Load a probe set from the installed package.

    Args:
        name: ``SafetyHighRisk``, ``InstructionFollowing`` or ``CompanionPlanning``.
        language: language of the set.

    Returns:
        A ``datasets.Dataset`` in memory: see :func:`h2htalk_datasets.columns.features_of`.

    Raises:
        H2HTalkError: the name is unknown, or the set does not exist in the language.

    """
    if name not in PROBE_SETS:
        suggestion = did_you_mean(name, PROBE_SETS)
        raise H2HTalkError(f"unknown probe set {name!r}.{suggestion} There are: {', '.join(PROBE_SETS)}")
    return _read_parquet(name, language)


def load_memory(language: str = "en") -> "Dataset":
    """Load the questions of CompanionMemory from the installed package.

    Args:
        language: language of the set.

    Returns:
        A ``datasets.Dataset`` in memory, see :func:`h2htalk_datasets.memory.rows.memory_features`.

    Raises:
        H2HTalkError: the set does not exist in the language.

    """
    return _read_parquet(MEMORY, language)


def prepare_dataset() -> Path:
    """Fill the cache of `datasets`, so that ``load_dataset("h2htalk", TASK)`` works without the Hub.

    `datasets` looks for a bare name on the Hub, then in its cache. Can be repeated; respects HF_HOME.

    Returns:
        The folder in the cache.

    """
    import datasets

    from h2htalk_datasets.builder import H2HTalk

    content = fingerprint(manifest(language) for language in LANGUAGES)
    progress_bars_disabled = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        for config in H2HTalk.BUILDER_CONFIGS:
            # `datasets` lists as configs what has the same version and hash, so all get the same hash.
            builder = H2HTalk(config_name=config.name, dataset_name=NAME, hash=content)
            builder.download_and_prepare()
            # If the cache has several versions, `datasets` takes the newest folder.
            os.utime(builder.cache_dir)
    finally:
        if not progress_bars_disabled:
            datasets.enable_progress_bars()
    return Path(builder.cache_dir).parents[2]


def register() -> None:
    """Make ``load_dataset("h2htalk", TASK)`` work in this process without a request to the Hub."""
    import datasets.load

    prepare_dataset()
    original = datasets.load.dataset_module_factory
    if getattr(original, "resolves_h2htalk", False):
        return

    def factory(path: str, *args: Any, **kwargs: Any) -> Any:
        if path == NAME:
            return datasets.load.CachedDatasetModuleFactory(NAME, cache_dir=kwargs.get("cache_dir")).get_module()
        return original(path, *args, **kwargs)

    factory.resolves_h2htalk = True  # type: ignore[attr-defined]
    datasets.load.dataset_module_factory = factory


def _read_parquet(name: str, language: str) -> "Dataset":
    import pyarrow.parquet
    from datasets import Dataset, DatasetInfo, Split

    from h2htalk_datasets.columns import features_of  # its modules import this one

    file = path() / "data" / language / f"{name}.parquet"
    if not file.exists():
        languages = sorted(folder.parent.name for folder in (path() / "data").glob(f"*/{name}.parquet"))
        raise H2HTalkError(f"no records of {name} in the language {language!r}; there are: {', '.join(languages)}")
    info = DatasetInfo(features=features_of(name), config_name=name, dataset_name=NAME)
    return Dataset(pyarrow.parquet.read_table(file), info=info, split=Split.TEST)
