"""Family and number of parameters of models, as data: nothing in a run folder says how large a model is."""

__all__ = ["ModelSize", "size_key"]

from typing import NamedTuple

from h2htalk_metric.runs.run import Run


class ModelSize(NamedTuple):
    """How large a model is.

    Attributes:
        family: models of one family are compared over their sizes, for instance ``Qwen2.5``.
        parameters: number of all parameters in billions, also of experts that are not active.

    """

    family: str
    parameters: float


def size_key(run: Run) -> tuple[str, str]:
    """Name of a run's model and of its adapter (or ""), without their revisions."""
    model = run.manifest["model"]
    return str(model["name"]), str(model.get("adapter") or "").rpartition("@")[0]
