"""Make ``load_dataset("h2htalk", TASK)`` resolve: by the cache of `datasets`, or in this process without the Hub."""

__all__ = ["prepare_dataset", "register"]

import os
from pathlib import Path
from typing import Any

from h2htalk_datasets.loading import NAME
from h2htalk_datasets.tasks import TASKS


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
