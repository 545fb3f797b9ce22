"""Sums of item values per cluster: the one source of cluster identity for intervals and tests.

Records of one relationship share persona and history, and interactions of one scenario share people and danger. Such
items are not independent, so their variance is taken between clusters (Miller 2024, "Adding Error Bars to Evals",
arXiv 2411.00640). Without clusters each item is its own cluster.
"""

__all__ = ["ClusterSums", "Clusters", "Items"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.stats.aggregate import cell_weights

Items = Mapping[str, Any]
"""Config name to the values of its items, a sequence of floats or an array of shape (items,)."""
Clusters = Mapping[str, Any]
"""Config name to the cluster labels of its items (str), in the order of the values."""


@dataclass(frozen=True)
class ClusterSums:
    """Item values of one or more configs, summed per cluster.

    Attributes:
        tasks: config names, shape (tasks,).
        sums: sum of values per cluster and config, shape (clusters, tasks).
        counts: number of items (or sum of their weights) per cluster and config, same shape.
        squares: sum of squared values per config, shape (tasks,); NaN if the items are not available or have weights.

    """

    tasks: tuple[str, ...]
    sums: np.ndarray
    counts: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, items: Items, clusters: Clusters | None = None, weights: Items | None = None) -> "ClusterSums":
        """Sum item values per cluster.

        Args:
            items: config name to its items' values; an item with value NaN is left out.
            clusters: cluster labels per config; one label may occur in several configs. None: each item is a cluster.
            weights: of the items per config, above 0; None: 1.

        Raises:
            H2HTalkError: a config has another number of labels than values.

        """
        values = {task: np.asarray(items[task], dtype=float) for task in items}
        labels = {task: _labels(task, len(values[task]), clusters) for task in items}
        rows = {
            label: row for row, label in enumerate(dict.fromkeys(label for task in items for label in labels[task]))
        }
        sums, counts = np.zeros((len(rows), len(values))), np.zeros((len(rows), len(values)))
        for column, task in enumerate(values):
            present = ~np.isnan(values[task])
            places = np.array([rows[label] for label in labels[task]], dtype=int)[present]
            weight = np.ones(len(present)) if weights is None else np.asarray(weights[task], dtype=float)
            np.add.at(sums[:, column], places, (weight * values[task])[present])
            np.add.at(counts[:, column], places, weight[present])
        squares = np.array([np.nan if weights else np.nansum(task_values**2) for task_values in values.values()])
        used = counts.any(axis=1)
        return cls(tuple(values), sums[used], counts[used], squares)

    @property
    def means(self) -> np.ndarray:
        """Mean over the items of each config, shape (tasks,); NaN for a config without items."""
        with np.errstate(invalid="ignore"):
            return self.sums.sum(axis=0) / self.counts.sum(axis=0)

    def influence(self, weights: np.ndarray) -> np.ndarray:
        """What each cluster adds to the error of a weighted sum of config means, shape (clusters,).

        This is the linearised ratio estimator: cluster totals minus their expectation, over the number of items.
        """
        residuals = (self.sums - self.means * self.counts) / self.counts.sum(axis=0)
        return np.nan_to_num(residuals) @ weights

    def num_clusters(self, weights: np.ndarray) -> int:
        """Number of clusters behind a weighted sum of config means; 1 if a config in it has only one cluster."""
        involved = self.counts[:, weights != 0] > 0
        fewest = int(involved.sum(axis=0).min(initial=len(involved)))
        return fewest if fewest < 2 else int(involved.any(axis=1).sum())

    def cells(self) -> dict[str, np.ndarray]:
        """Weights of the configs in every cell of a row of Table 2 that these configs allow."""
        return cell_weights(self.tasks)

    def only(self, tasks: Sequence[str]) -> "ClusterSums":
        """The sums of some of the configs, in their order here."""
        columns = [column for column, task in enumerate(self.tasks) if task in tasks]
        used = self.counts[:, columns].any(axis=1)
        return ClusterSums(
            tuple(self.tasks[column] for column in columns),
            self.sums[used][:, columns],
            self.counts[used][:, columns],
            self.squares[columns],
        )

    def minus(self, other: "ClusterSums") -> "ClusterSums":
        """Sums of the differences of the same items in the same clusters.

        Raises:
            H2HTalkError: configs, clusters or counts differ.

        """
        if self.tasks != other.tasks or not np.array_equal(self.counts, other.counts):
            raise H2HTalkError("the two runs hold different records; compare runs with the same tasks and limit")
        return replace(self, sums=self.sums - other.sums, squares=np.full(len(self.tasks), np.nan))


def _labels(task: str, size: int, clusters: Clusters | None) -> list[str]:
    if clusters is None:
        return [f"{task} {place}" for place in range(size)]
    labels = list(clusters[task])
    if len(labels) != size:
        raise H2HTalkError(f"{task}: {size} values but {len(labels)} cluster labels; give one label per value")
    return labels
