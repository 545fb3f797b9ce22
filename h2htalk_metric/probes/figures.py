"""One measured mean of a probe, as its result file stores it."""

__all__ = ["figure"]

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from h2htalk_metric.stats.intervals import as_json, mean_detectable, mean_interval


def figure(
    values: Sequence[float] | np.ndarray,
    clusters: Sequence[str],
    *,
    rate: bool = False,
    bounds: tuple[float, float] | None = None,
) -> dict[str, Any] | None:
    """Mean of clustered values.

    Args:
        values: shape (items,); NaN values are left out.
        clusters: label per item, in general its scenario.
        rate: the values are shares, see :func:`h2htalk_metric.stats.intervals.mean_interval`.
        bounds: smallest and largest possible value.

    Returns:
        n (number of values), value, low and high (95% interval) and detectable (smallest difference to an independent
        run that a test finds with 80% power at 5%); undefined numbers are None. None if no item has a value.

    """
    interval = mean_interval(values, clusters, rate=rate, bounds=bounds)
    if interval is None:
        return None
    detectable = mean_detectable(values, clusters)
    n = int((~np.isnan(np.asarray(values, dtype=float))).sum())
    return {"n": n, **as_json(interval), "detectable": None if math.isnan(detectable) else detectable}
