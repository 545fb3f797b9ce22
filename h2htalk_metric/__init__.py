"""H2HTalk's measure: what an answer was worth. Composite score, aggregation, reports.

Example:
    >>> from h2htalk_metric import score
    >>> result = score(["hello there"], ["hello there"], embedder="demo")  # doctest: +SKIP
    >>> result.mean()["rouge1"]  # doctest: +SKIP
    1.0

"""

__all__ = ["COMPONENTS", "Scores", "aggregate", "score"]

from h2htalk_metric.metrics.composite import COMPONENTS, Scores, score
from h2htalk_metric.stats.aggregate import aggregate
