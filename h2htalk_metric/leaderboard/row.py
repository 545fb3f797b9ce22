"""The row of a submission: everything that the board computed from its raw answers."""

__all__ = ["ROW_VERSION", "Level", "Row", "Sample", "full_size"]

from datetime import datetime
from functools import cached_property
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from h2htalk_datasets.loading import manifest
from h2htalk_metric.stats.clusters import ClusterSums

ROW_VERSION = 9
"""Increase it whenever rows are computed in another way; stored rows of other versions are not read but recomputed."""


def full_size(language: str) -> int:
    """Number of records of a full run in a language; the Chinese edition grows."""
    return sum(manifest(language)["counts"].values())


class Sample(BaseModel):
    """An answer that the page of a run shows.

    Attributes:
        label: ``lowest``, ``middle`` or ``highest`` lexical score of its config.
        id: record id.
        score: mean of the six lexical components, 0..1.

    """

    model_config = ConfigDict(frozen=True)

    label: str
    id: str
    score: float


class Level(BaseModel):
    """The records of one level of need, difficulty, turns or emotion.

    Attributes:
        factor: for instance ``need``.
        level: for instance ``implicit``.
        n: number of records.
        value: mean S times 100.
        interval: its 95% interval, clustered by relationship; None if it is undefined.
        detectable: smallest difference to an independent run that a test finds (80% power, 5% level), or None.

    """

    model_config = ConfigDict(frozen=True)

    factor: str
    level: str
    n: int
    value: float
    interval: tuple[float, float] | None
    detectable: float | None


class Row(BaseModel):
    """A submission as the board ranks it.

    Attributes:
        version: :data:`ROW_VERSION` of the code that computed the row.
        digest: of the answers; names the submission's file.
        model: displayed name, untrusted.
        bracket: size bracket.
        submitted: when the board received it, UTC.
        sap: principles of the persona in the prompts.
        language: code of the language of its records; a run in two languages has two rows.
        full_size: number of records of a full run in this language.
        scoring_config: embedder, revision, precision and dataset. Only rows with an equal one are ranked together.
        n: number of answers.
        cells: S times 100 by cell of Table 2; None if the cell needs a config that the run does not have.
        intervals: 95% interval by cell, clustered by relationship; without cells that have only one cluster.
        detectable: smallest difference to an independent run that a test finds (80% power, 5% level), by cell.
        levels: S by kind of record.
        need_effects: unsaid minus explicit needs in S times 100: value and ends of the interval of the comparisons
            ``raw``, ``within_config`` and ``adjusted``; empty if the run has too few records.
        tasks: per config the means of the components and composite and the format_rate, 0..1, and counts.
        memory_labels: see :meth:`h2htalk_metric.runs.scoring.RunScores.memory_labels`.
        ss: whether the board computed SS itself or took the claimed one.
        samples: the lowest, middle and highest answer of each config.
        cluster_sums: sums of S times 100, shape (relationships, configs), for paired differences of two runs.
        cluster_counts: numbers of items, same shape.

    """

    model_config = ConfigDict(frozen=True)

    version: Literal[ROW_VERSION]  # type: ignore[valid-type]
    digest: str
    model: str
    bracket: str
    submitted: datetime
    sap: list[str]
    language: str
    full_size: int
    scoring_config: dict[str, str]
    n: int
    cells: dict[str, float | None]
    intervals: dict[str, tuple[float, float]]
    detectable: dict[str, float]
    levels: list[Level]
    need_effects: dict[str, tuple[float, float, float]]
    tasks: dict[str, dict[str, float]]
    memory_labels: dict[str, float | None]
    ss: Literal["recomputed", "claimed"]
    samples: dict[str, list[Sample]]
    cluster_sums: list[list[float]]
    cluster_counts: list[list[int]]

    @property
    def partial(self) -> bool:
        """Whether the run answers only some of the records."""
        return self.n < self.full_size

    @cached_property
    def sums(self) -> ClusterSums:
        """S times 100 per relationship and config."""
        sums, counts = np.array(self.cluster_sums, dtype=float), np.array(self.cluster_counts, dtype=float)
        return ClusterSums(tuple(self.tasks), sums, counts, np.full(len(self.tasks), np.nan))
