"""Fill the caches of `datasets` and `evaluate`, so that the bare name ``h2htalk`` resolves with or without the Hub."""

__all__ = ["prepare", "prepare_metric"]

import os
from pathlib import Path

from h2htalk_datasets.loading import NAME, prepare_dataset


def prepare() -> tuple[Path, Path]:
    """Prepare dataset and metric; idempotent, honours HF_HOME. Returns the two folders in the caches."""
    return prepare_dataset(), prepare_metric()


def prepare_metric() -> Path:
    """Put the metric's module where `evaluate` looks for a name that the Hub doesn't answer for."""
    from evaluate.loading import HubEvaluationModuleFactory, init_dynamic_modules

    class Shipped(HubEvaluationModuleFactory):
        """A Hub module whose script comes from the installed package."""

        def download_loading_script(self, revision: str) -> str:
            return str(Path(__file__).with_name("h2htalk_metric.py"))

    module = Shipped(f"evaluate-metric/{NAME}").get_module()
    folder = Path(init_dynamic_modules()) / "metrics" / f"evaluate-metric--{NAME}" / module.hash
    # `evaluate` takes the newest where several versions were prepared.
    os.utime(folder / f"{NAME}.py")
    return folder
