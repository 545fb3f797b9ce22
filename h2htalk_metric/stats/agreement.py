"""Agreement of raters."""

__all__ = ["krippendorff_alpha"]

from collections.abc import Sequence
from typing import Literal

import numpy as np


def krippendorff_alpha(
    ratings: Sequence[Sequence[float]] | np.ndarray, level: Literal["ordinal", "interval"] = "interval"
) -> float | None:
    """Krippendorff's alpha.

    Args:
        ratings: shape (raters, items), NaN where a rater gave no rating.
        level: level of measurement.

    Returns:
        1 for full agreement, 0 for chance; None if undefined: fewer than two raters, two items or two values.

    """
    import krippendorff

    values = np.asarray(ratings, dtype=float)
    paired = values[:, (~np.isnan(values)).sum(axis=0) > 1]
    if paired.shape[1] < 2 or len(np.unique(paired[~np.isnan(paired)])) < 2:
        return None
    return float(krippendorff.alpha(reliability_data=paired, level_of_measurement=level))
