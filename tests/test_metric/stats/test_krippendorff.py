"""Krippendorff's alpha against the literature."""

import numpy as np
import pytest

from h2htalk_metric.stats.agreement import krippendorff_alpha


def test_alpha_of_the_literature():
    """Krippendorff's own example (2011), interval data: 0.849."""
    n = np.nan
    ratings = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, n, n, n],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, n, 3],
        [n, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, n],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, n],
    ]
    assert krippendorff_alpha(ratings) == pytest.approx(0.849, abs=5e-4)
    assert krippendorff_alpha([[3, 3], [3, 3]]) is None
