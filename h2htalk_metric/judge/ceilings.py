"""The reference ceiling of a config: the mean S of a competent independent writer there, shipped in ``ceilings.yaml``.

An answer as good as the reference does not reach S = 1, since it uses other words. On the scale ``ceiling`` J takes S
as a part of what such a writer reaches. Ceilings depend on the embedder and on the references;
``benchmarks/ceilings.py EMBEDDER`` measures them.
"""

__all__ = ["Ceiling", "ceiling_scale", "read_ceilings", "records_hash"]

from pathlib import Path
from typing import Any, NamedTuple

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import parse_yaml
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.loading import load
from h2htalk_metric.judge.panel_scores import composites_of
from h2htalk_metric.judge.scale import Scale
from h2htalk_metric.runs.run import Run
from h2htalk_metric.runs.scoring import read_scores

FILE = Path(__file__).with_name("ceilings.yaml")


class Ceiling(NamedTuple):
    """The ceiling of one config with one embedder.

    Attributes:
        mean: mean S of the independent answers, 0..1.
        low: lower end of its 95% interval, clustered by relationship.
        high: upper end.
        n: number of answers.
        records: see :func:`records_hash`.

    """

    mean: float
    low: float
    high: float
    n: int
    records: str


def read_ceilings(file: Path = FILE) -> dict[str, dict[str, Ceiling]]:
    """Ceilings by embedder (its name in the signature) and config."""
    content: dict[str, dict[str, dict[str, Any]]] = parse_yaml(file.read_text("utf-8")) or {}
    return {
        embedder: {task: Ceiling(**ceiling) for task, ceiling in ceilings.items()}
        for embedder, ceilings in content.items()
    }


def records_hash(task: str) -> str:
    """Twelve hex digits over prompts and references of a config; other records have other ceilings."""
    rows = load(task).select_columns(["id", "messages", "reference"])
    return fingerprint(dict(row) for row in rows)[:12]


def ceiling_scale(run: Run) -> Scale:
    """The scale ``ceiling`` for a run.

    Args:
        run: a scored run.

    Raises:
        H2HTalkError: the run is not scored, or there are no ceilings for its embedder, configs or dataset version.

    """
    run.check_one_language()
    if run.languages != ["en"]:
        raise H2HTalkError("there are no reference ceilings in this language; use --scale paper")
    embedder = read_scores(run).signature["embedder"]
    measured = read_ceilings().get(embedder, {})
    tasks = list(dict.fromkeys(composites_of(run)["task"]))
    how = f"measure them with: python benchmarks/ceilings.py {embedder!r}, or use --scale paper"
    if missing := [task for task in tasks if task not in measured]:
        raise H2HTalkError(f"no reference ceilings of {', '.join(missing)} for the embedder {embedder!r}; {how}")
    if changed := [task for task in tasks if measured[task].records != records_hash(task)]:
        raise H2HTalkError(
            f"the reference ceilings of {', '.join(changed)} are of another version of the dataset; {how}"
        )
    return Scale("ceiling", {task: measured[task].mean for task in tasks}, embedder)
