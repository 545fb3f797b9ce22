"""The geometry of the page's figures; ``figures.svg.jinja`` draws them."""

__all__ = ["CENTRE", "RADIUS", "Axis", "Radar", "Spread", "ceiling", "radar", "spread"]

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np

from h2htalk_metric.stats.intervals import Interval

RADIUS = 150
CENTRE = (260, 215)
"""Of the radar, in the units of its view box."""

Point = tuple[float, float]


class Spread(NamedTuple):
    """How a number is distributed: five percentiles."""

    p5: float
    p25: float
    median: float
    p75: float
    p95: float


class Axis(NamedTuple):
    """One figure on the radar.

    Attributes:
        of: what it belongs to, the first line of its name.
        name: the second line.
        figure: its interval.
        end: where the axis ends.
        label: where its name stands.
        anchor: how the name is set there, as SVG's text-anchor.
        dot: where its value stands.

    """

    of: str
    name: str
    figure: Interval
    end: Point
    label: Point
    anchor: str
    dot: Point


class Radar(NamedTuple):
    """Axes, rings by their value, and the outlines that the intervals' lower ends, values and upper ends make.

    `low` and `high` are empty where a figure has no interval.
    """

    axes: list[Axis]
    rings: dict[int, list[Point]]
    low: list[Point]
    value: list[Point]
    high: list[Point]


def ceiling(values: Iterable[float]) -> int:
    """Where an axis from 0 in four round steps ends: at or above the greatest value; NaN is none."""
    greatest = max(value for value in values if not math.isnan(value))
    steps = (step * 10**power for power in count() for step in (5, 10, 15, 20, 25, 30, 40))
    return next(4 * step for step in steps if 4 * step >= greatest)


def spread(numbers: Sequence[float]) -> Spread:
    """The 5th, 25th, 50th, 75th and 95th percentile."""
    return Spread(*map(float, np.percentile(numbers, [5, 25, 50, 75, 95])))


def radar(intervals: Mapping[tuple[str, str], Interval]) -> Radar | None:
    """The radar of figures by the two lines of their names, in their order; None where fewer than three make no shape.

    A figure's axis ends where all axes do, at or above the greatest upper end.
    """
    if len(intervals) < 3:
        return None
    top = ceiling(end for interval in intervals.values() for end in interval)
    angles = {name: 2 * math.pi * place / len(intervals) - math.pi / 2 for place, name in enumerate(intervals)}

    def outline(end: str) -> list[Point]:
        return [_point(angles[name], getattr(interval, end) / top) for name, interval in intervals.items()]

    values = outline("value")
    axes = [
        Axis(*name, intervals[name], _point(angle, 1), _label(angle), _anchor(angle), dot)
        for (name, angle), dot in zip(angles.items(), values, strict=True)
    ]
    rings = {top * part // 4: [_point(angle, part / 4) for angle in angles.values()] for part in range(1, 5)}
    low, high = (outline(end) if all(one.defined for one in intervals.values()) else [] for end in ("low", "high"))
    return Radar(axes, rings, low, values, high)


def _point(angle: float, share: float) -> Point:
    x, y = CENTRE
    return round(x + RADIUS * share * math.cos(angle), 1), round(y + RADIUS * share * math.sin(angle), 1)


def _label(angle: float) -> Point:
    """Where the first of a name's two lines stands: above the axis's end at the top, under it at the bottom."""
    x, y = _point(angle, 1.1)
    return x, round(y - 2 + 12 * math.sin(angle), 1)


def _anchor(angle: float) -> str:
    side = math.cos(angle)
    return "middle" if abs(side) < 0.2 else "start" if side > 0 else "end"
