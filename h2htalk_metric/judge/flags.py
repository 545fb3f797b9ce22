"""How many judged answers are flagged for people (Eq. 4), and why."""

__all__ = ["certain_flags", "flag_summary", "needed_composite", "why_flagged"]

import math

import numpy as np
import pandas as pd

from h2htalk_metric.judge.panel import Panel

_BEST = 5.0  # J_judge of a judge that gives every criterion its highest level


def needed_composite(alpha: float, tau: float) -> float:
    """S that an answer needs to reach tau if the judge gives it 5 (Eq. 3 solved for S).

    Args:
        alpha: weight of the composite, 0..1.
        tau: 0..5.

    Returns:
        Above 1 if no answer can reach tau, 0 or less if every answer with a 5 does.

    """
    missing = tau - (1 - alpha) * _BEST
    if alpha == 0:
        return math.inf if missing > 0 else 0.0
    return missing / (alpha * 5)


def why_flagged(panel: Panel) -> str:
    """What an answer needs in order not to be flagged, as a clause without a full stop."""
    if panel.tau_share is not None:
        return f"the lowest {100 * panel.tau_share:g}% by J"
    needed = round(needed_composite(panel.alpha, panel.tau), 9)  # 3.5 - 0.4 * 5 is not exactly 1.5
    if needed > 1:
        return f"J cannot reach {panel.tau:g} with alpha {panel.alpha:g}, even with S of 1 and a perfect judge"
    if needed <= 0:
        return f"J reaches {panel.tau:g} at any S if the judge gives 5"
    shown = math.ceil(100 * needed - 1e-9) / 100
    ceilings = ", ".join(f"{task} {panel.scale.scaled_limit(task, needed):.2f}" for task in panel.scale.ceilings)
    of_ceiling = f" of the config's ceiling ({ceilings})" if ceilings else ""
    return f"J reaches {panel.tau:g} only if S is at least {shown:.2f}{of_ceiling} even with a perfect judge"


def flag_summary(rows: pd.DataFrame, panel: Panel) -> str:
    """One line: which share of the judged answers is flagged, and why.

    Args:
        rows: see :func:`h2htalk_metric.judge.panel_scores.panel_scores`.
        panel: who judged, and how.

    """
    judged = rows.dropna(subset="j_with_judge")
    if judged.empty:
        return f"No judged answer has a J yet: {why_flagged(panel)}."
    highest = f"the highest S here is {judged['composite'].max():.2f}"
    return (
        f"{int(judged['flagged'].sum())} of {len(judged)} judged answers are flagged: {why_flagged(panel)}; {highest}."
    )


def certain_flags(composites: pd.DataFrame, panel: Panel) -> str:
    """One line before anything is judged: how many answers are flagged whatever the judge says.

    Args:
        composites: see :func:`h2htalk_metric.judge.panel_scores.composites_of`.
        panel: who will judge, and how.

    """
    pairs = zip(composites["task"], composites["composite"], strict=True)
    count = int(panel.flags(np.array([panel.j(task, composite, _BEST) for task, composite in pairs])).sum())
    return f"{count} of {len(composites)} answers will be flagged whatever the judge says: {why_flagged(panel)}."
