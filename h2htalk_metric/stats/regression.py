"""Linear regression with cluster-robust standard errors, by statsmodels."""

__all__ = ["Effect", "clustered_regression"]

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.stats.intervals import minimum_detectable_difference


class Effect(NamedTuple):
    """One coefficient of a regression.

    Attributes:
        value: the coefficient, in units of the outcome per unit of its variable.
        low: lower end of its 95% interval.
        high: upper end of its 95% interval.
        p: two-sided p-value of the coefficient being 0.
        detectable: smallest true effect that such a test finds with 80% power at 5%.

    """

    value: float
    low: float
    high: float
    p: float
    detectable: float


def clustered_regression(
    outcome: Sequence[float] | np.ndarray,
    variables: Mapping[str, Sequence[float] | np.ndarray],
    clusters: Sequence[str],
    groups: Sequence[str] | None = None,
) -> dict[str, Effect]:
    """Ordinary least squares; errors may be correlated within clusters.

    Args:
        outcome: shape (n,).
        variables: name to values of shape (n,).
        clusters: label per item; intervals use Student's t with ``clusters - 1`` degrees of freedom.
        groups: label per item; each group gets its own intercept (fixed effects). None: one intercept.

    Returns:
        The effect of each variable, in the given order.

    Raises:
        H2HTalkError: there are fewer than two clusters, a variable is a combination of the others, or there are not
            more clusters than coefficients.

    """
    import statsmodels.api as sm

    labels = sorted(set(groups or ["all"]))
    intercepts = np.stack(
        [np.array([group == label for group in groups or ["all"] * len(outcome)]) for label in labels]
    )
    design = np.column_stack([*(np.asarray(values, dtype=float) for values in variables.values()), intercepts.T])
    codes = np.unique(np.asarray(clusters), return_inverse=True)[1]
    if codes.max(initial=0) < 1:
        raise H2HTalkError("a regression with clustered errors needs records of at least two relationships")
    if min(len(design), codes.max() + 1) <= design.shape[1] or np.linalg.matrix_rank(design) < design.shape[1]:
        raise H2HTalkError(f"the effects of {', '.join(variables)} cannot be separated with these records")
    fit = sm.OLS(np.asarray(outcome, dtype=float), design).fit(
        cov_type="cluster", cov_kwds={"groups": codes}, use_t=True
    )
    ends, num_clusters = fit.conf_int(0.05), int(codes.max()) + 1
    return {
        name: Effect(
            float(fit.params[i]),
            float(ends[i][0]),
            float(ends[i][1]),
            float(fit.pvalues[i]),
            minimum_detectable_difference(float(fit.bse[i]), num_clusters),
        )
        for i, name in enumerate(variables)
    }
