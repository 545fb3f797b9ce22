"""Write the results of a run in the format of another tool."""

__all__ = ["FORMATS", "Format", "export_results"]

from pathlib import Path
from typing import Literal, get_args

from h2htalk_datasets.errors import H2HTalkError, did_you_mean
from h2htalk_metric.export.source import Source
from h2htalk_metric.runs.run import Run

Format = Literal["every-eval-ever", "inspect"]
FORMATS: tuple[Format, ...] = get_args(Format)


def export_results(run: Run | str | Path, format: str, out: str | Path, source: Source | None = None) -> list[Path]:
    """Write the results of a scored run: scores, answers, and the scores of judges and people.

    Args:
        run: the run, or its folder.
        format: one of :data:`FORMATS`.
        out: a folder, or for ``inspect`` also a file ``NAME.eval``. An earlier export of the same run is replaced.
        source: what the format needs and the run does not tell; None: the defaults.

    Returns:
        The main file, one per language of the run.

    Raises:
        H2HTalkError: the format is unknown, the run is not scored or answers a probe set, the installed dataset is not
            the run's, or `out` has other files.

    """
    if format not in FORMATS:
        hint = did_you_mean(format, FORMATS)
        raise H2HTalkError(f"unknown format {format!r}.{hint} Choose one of: {', '.join(FORMATS)}")
    from h2htalk_metric.export.every_eval_ever import write_every_eval_ever
    from h2htalk_metric.export.inspect_log import write_inspect_logs
    from h2htalk_metric.export.results import read_results

    write = {"every-eval-ever": write_every_eval_ever, "inspect": write_inspect_logs}[format]
    return write(read_results(Run.of(run)), Path(out), source or Source())
