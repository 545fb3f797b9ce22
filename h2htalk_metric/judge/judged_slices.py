"""J and the judges' scores by kind of record: of one run, and the differences of two."""

__all__ = ["JUDGED_MEASURES", "check_same_judging", "compare_judged", "judged_slices", "judged_values"]

from dataclasses import asdict
from pathlib import Path

import pandas as pd

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.judge.judged_run import read_judged
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.judge.panel_scores import other_task_scores
from h2htalk_metric.runs.compare import check_comparable
from h2htalk_metric.runs.run import Run
from h2htalk_metric.runs.scoring import read_scores
from h2htalk_metric.runs.slices import FACTORS, Slice, levels_of, slices
from h2htalk_metric.stats.significance import PairedTest, paired_group_tests

JUDGED_MEASURES = {"j": "J", "judge_score": "judge_score of other tasks"}
"""What judged answers have, with its name: J for the tasks of Eq. 3, the mean score of the judges for the others."""

_ONLY_FLAGS = ("tau", "tau_share")
"""Settings of a panel that change no J."""


def judged_values(run: Run | str | Path) -> dict[str, pd.Series]:
    """Per measure one value per item of the run's scores, 0..5, NaN if it has none; without measures that no item has.

    Args:
        run: a scored run, or its folder.

    Raises:
        H2HTalkError: the run is not scored, or not complete.

    """
    run = Run.of(run)
    judged, others, ids = read_judged(run), other_task_scores(run), read_scores(run).items["id"]
    columns = {"j": None if judged is None else judged.items, "judge_score": others}
    values = {
        measure: ids.map(table.set_index("id")[measure]).astype(float)
        for measure, table in columns.items()
        if table is not None
    }
    return {measure: of_items for measure, of_items in values.items() if of_items.notna().any()}


def judged_slices(run: Run | str | Path) -> dict[str, dict[str, list[Slice]]]:
    """Mean of every measure at the levels of each factor that scored items have, by measure and factor."""
    run = Run.of(run)
    scores = read_scores(run)
    return {
        measure: {factor: parts for factor in FACTORS if (parts := slices(scores, factor, values, (0, 5)))}
        for measure, values in judged_values(run).items()
    }


def compare_judged(
    first: Run | str | Path, second: Run | str | Path, *, resamples: int = 10_000, seed: int = 0
) -> dict[str, dict[tuple[str, str], PairedTest]]:
    """Test the difference of two judged runs per config and at every level of need, difficulty, turns and emotion.

    Args:
        first: a scored and judged run, or its folder.
        second: another run over the same records, judged in the same way.
        resamples: see :func:`h2htalk_metric.stats.significance.paired_test`.
        seed: see there.

    Returns:
        By measure, test by factor (also ``config``) and level, over the items that both runs have a value for;
        p-values are corrected over the levels of one factor (Holm). Without measures that only one of the runs has.

    Raises:
        H2HTalkError: the runs were judged in different ways; or see
            :func:`h2htalk_metric.runs.compare.check_comparable`.

    """
    first, second = Run.of(first), Run.of(second)
    scores = read_scores(first)
    check_comparable(scores, read_scores(second))
    values, others = judged_values(first), judged_values(second)
    measures = [measure for measure in JUDGED_MEASURES if measure in values and measure in others]
    if measures:
        check_same_judging(first, second)
    clusters = scores.items["relationship"].to_numpy()
    tasks = {task: scores.items["task"] == task for task in TASKS if task in set(scores.items["task"])}
    groups = {"config": tasks} | {factor: levels_of(scores, factor) for factor in FACTORS}
    results: dict[str, dict[tuple[str, str], PairedTest]] = {}
    for measure in measures:
        pair = (values[measure].to_numpy(), others[measure].to_numpy())
        results[measure] = {
            (factor, level): test
            for factor, levels in groups.items()
            for level, test in paired_group_tests(
                *pair,
                {level: chosen.to_numpy() for level, chosen in levels.items()},
                clusters,
                resamples=resamples,
                seed=seed,
            ).items()
        }
    return results


def check_same_judging(first: Run, second: Run) -> None:
    """Check that two runs were judged by the same panel with the same settings.

    Raises:
        H2HTalkError: they were not; names the first difference.

    """
    one, other = (asdict(Panel.read(run.path) or Panel(())) for run in (first, second))
    for key, value in one.items():
        if key not in _ONLY_FLAGS and value != other[key]:
            raise H2HTalkError(
                f"the runs were judged in different ways ({key} {value} against {other[key]}); judge both the same way"
            )
