"""Figures as SVG: the radar of the report and of the leaderboard, and the small plots of table cells."""

__all__ = [
    "MAX_RADAR_LINES",
    "Axis",
    "Distribution",
    "axis_end",
    "bar",
    "boxes",
    "distribution",
    "line_plot",
    "radar",
    "scale_plot",
    "ticks",
    "whisker",
]

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from h2htalk_metric.reports.rendering import render_macro
from h2htalk_metric.stats.intervals import Interval

Axis = tuple[str, str]
"""The two lines of an axis label; the first one is also its CSS class, for instance a dimension."""
Point = tuple[float, float]

MAX_RADAR_LINES = 6
"""So many lines can be told apart."""
_RADIUS, _CENTRE = 150, (260, 215)
_LEGEND_TOP, _LEGEND_STEP = 440, 24
# Okabe and Ito's colours, which colour-blind readers can tell apart; each with its own dash and mark.
_STYLES = (
    ("#0072b2", "", "circle"),
    ("#d55e00", "7 3", "square"),
    ("#009e73", "2 3", "triangle"),
    ("#cc79a7", "9 3 2 3", "diamond"),
    ("#e69f00", "4 2", "cross"),
    ("#56b4e9", "1 2", "ring"),
)


class Distribution(NamedTuple):
    """Five percentiles of a number."""

    p5: float
    p25: float
    median: float
    p75: float
    p95: float


def distribution(numbers: Sequence[float]) -> Distribution:
    """The 5th, 25th, 50th, 75th and 95th percentile."""
    return Distribution(*map(float, np.percentile(numbers, [5, 25, 50, 75, 95])))


def axis_end(values: Iterable[float]) -> int:
    """End of an axis from 0 in four round steps: at or above the largest value; NaN values are left out."""
    largest = max(value for value in values if not math.isnan(value))
    steps = (step * 10**power for power in count() for step in (5, 10, 15, 20, 25, 30, 40))
    return next(4 * step for step in steps if 4 * step >= largest)


def ticks(top: int) -> Markup:
    """The numbers of an axis from 0 to `top`, for the head of a column of plots."""
    return render_macro("svg.jinja", "ticks", top=top)


def whisker(interval: Interval, top: float, limit: float | None = None) -> Markup:
    """A dot at the value with a line over the interval, on an axis from 0 to `top`; `limit` is a dashed line."""
    return render_macro("svg.jinja", "whisker", interval=interval, top=top, limit=limit)


def boxes(answers: Distribution, references: Distribution, top: float, limit: float | None = None) -> Markup:
    """Two distributions, one above the other; `limit` is a dashed line."""
    return render_macro("svg.jinja", "boxes", answers=answers, references=references, top=top, limit=limit)


def bar(share: float) -> Markup:
    """A bar for a share, 0..1."""
    return render_macro("svg.jinja", "bar", share=share)


def radar(lines: Mapping[str, Mapping[Axis, Interval]], label: str) -> Markup | None:
    """A radar with one line per model.

    A single line has a dot per axis in the colour of the axis's CSS class, and a band for its intervals if all of them
    are defined. Several lines have a colour, a dash and a mark each, and a legend.

    Args:
        lines: name to value per axis; the first :data:`MAX_RADAR_LINES` are drawn. The axes are those of all lines in
            order of appearance; a line leaves out the axes that it does not have.
        label: what the figure shows, for screen readers.

    Returns:
        None if there are fewer than three axes. All axes run from 0 to the same round number.

    """
    lines = dict(list(lines.items())[:MAX_RADAR_LINES])
    axes = list(dict.fromkeys(axis for values in lines.values() for axis in values))
    if len(axes) < 3:
        return None
    top = axis_end(end for values in lines.values() for interval in values.values() for end in interval)
    angles = {axis: 2 * math.pi * place / len(axes) - math.pi / 2 for place, axis in enumerate(axes)}
    single = next(iter(lines.values())) if len(lines) == 1 else {}
    has_band = bool(single) and all(interval.defined for interval in single.values())
    return render_macro(
        "svg.jinja",
        "radar",
        label=label,
        height=_LEGEND_TOP + (_LEGEND_STEP * len(lines) if len(lines) > 1 else 0),
        centre=_CENTRE,
        axes=[_axis(axis, angle) for axis, angle in angles.items()],
        rings={top * part // 4: [_point(angle, part / 4) for angle in angles.values()] for part in range(1, 5)},
        band=[_outline(single, angles, top, end) for end in ("high", "low")] if has_band else [],
        lines=[_line(name, values, angles, top, place) for place, (name, values) in enumerate(lines.items())],
    )


def line_plot(lines: Mapping[str, Mapping[str, Interval]], label: str, top: float, unit: str) -> Markup | None:
    """Values over ordered groups, one line per name with its intervals, and a legend.

    Args:
        lines: name to value per group; the first :data:`MAX_RADAR_LINES` are drawn. The groups are those of the longest
            line, in its order; a line leaves out the groups that it does not have.
        label: what the figure shows, for screen readers.
        top: end of the vertical axis, which begins at 0.
        unit: of the groups, below the horizontal axis.

    Returns:
        None if there are fewer than two groups.

    """
    lines = dict(list(lines.items())[:MAX_RADAR_LINES])
    groups = max((list(values) for values in lines.values()), key=len, default=[])
    if len(groups) < 2:
        return None
    left, right, bottom, height = 50, 500, 220, 190

    def y(value: float) -> float:
        return round(bottom - height * min(value, top) / top, 1)

    drawn = []
    for place, (name, values) in enumerate(lines.items()):
        dots = []
        for number, group in enumerate(groups):
            if (interval := values.get(group)) is None:
                continue
            # Each line is a little to the side, so that intervals do not cover each other.
            x = left + (right - left) * (number + 0.5) / len(groups) + 7 * (place - (len(lines) - 1) / 2)
            ends = (y(interval.low), y(interval.high)) if interval.defined else None
            title = f"{name}, {group}: {interval.value:.2f}"
            dots.append({"x": round(x, 1), "y": y(interval.value), "ends": ends, "title": title})
        drawn.append(_plotted(name, place, dots))
    columns = {group: round(left + (right - left) * (n + 0.5) / len(groups), 1) for n, group in enumerate(groups)}
    levels = {f"{top * part / 4:g}": y(top * part / 4) for part in range(5)}
    size = {"height": 275 + _LEGEND_STEP * len(lines), "left": left, "right": right, "bottom": bottom}
    return render_macro(
        "svg.jinja", "line_plot", label=label, unit=unit, columns=columns, levels=levels, lines=drawn, **size
    )


def scale_plot(families: Mapping[str, Mapping[str, tuple[float, Interval]]], label: str) -> Markup | None:
    """Values against the number of parameters on a logarithmic axis, one line per family with its intervals.

    Args:
        families: name to its models, smallest first: parameters in billions and the value. The largest
            :data:`MAX_RADAR_LINES` are drawn.
        label: what the figure shows, for screen readers.

    Returns:
        None if all models have the same number of parameters.

    """
    largest = sorted(families, key=lambda family: -len(families[family]))[:MAX_RADAR_LINES]
    lines = {family: families[family] for family in families if family in largest}
    sizes = [parameters for models in lines.values() for parameters, _ in models.values()]
    if not sizes or min(sizes) == max(sizes):
        return None
    left, right, top, bottom = 50, 500, 20, 220
    first, last = math.log(min(sizes)), math.log(max(sizes))
    ends = [end for models in lines.values() for _, interval in models.values() for end in interval]
    low, high = 5 * math.floor(np.nanmin(ends) / 5), 5 * math.ceil(np.nanmax(ends) / 5)

    def x(parameters: float) -> float:
        return round(left + 20 + (right - left - 40) * (math.log(parameters) - first) / (last - first), 1)

    def y(value: float) -> float:
        return round(bottom - (bottom - top) * (value - low) / (high - low), 1)

    drawn = []
    for place, (family, models) in enumerate(lines.items()):
        dots = [
            {
                "x": x(parameters),
                "y": y(interval.value),
                "ends": (y(interval.low), y(interval.high)) if interval.defined else None,
                "title": f"{model}, {parameters:g} billion: {interval.value:.2f}",
            }
            for model, (parameters, interval) in models.items()
        ]
        drawn.append(_plotted(family, place, dots))
    steps = [power * digit for power in (0.1, 1, 10, 100, 1000) for digit in (1, 2, 5)]
    return render_macro(
        "svg.jinja",
        "line_plot",
        label=label,
        unit="parameters (billions, logarithmic)",
        columns={f"{step:g}": x(step) for step in steps if min(sizes) <= step <= max(sizes)},
        levels={str(value): y(value) for value in range(low, high + 1, 5 if high - low <= 40 else 10)},
        lines=drawn,
        height=275 + _LEGEND_STEP * len(lines),
        left=left,
        right=right,
        bottom=bottom,
    )


def _plotted(name: str, place: int, dots: list[dict[str, Any]]) -> dict[str, Any]:
    """A line of a plot with its style and the place of its legend."""
    colour, dash, mark = _STYLES[place]
    style = {"name": name, "colour": colour, "dash": dash, "mark": mark}
    points = [(dot["x"], dot["y"]) for dot in dots]
    return {**style, "dots": dots, "points": points, "legend_y": 285 + _LEGEND_STEP * place}


def _axis(axis: Axis, angle: float) -> dict[str, Any]:
    """Where an axis ends, and where and how its label is written."""
    x, y = _point(angle, 1.1)
    side = math.cos(angle)
    anchor = "middle" if abs(side) < 0.2 else "start" if side > 0 else "end"
    label = (x, round(y - 2 + 12 * math.sin(angle), 1))  # above the end at the top, below it at the bottom
    return {"group": axis[0], "name": axis[1], "end": _point(angle, 1), "label": label, "anchor": anchor}


def _line(
    name: str, values: Mapping[Axis, Interval], angles: Mapping[Axis, float], top: float, place: int
) -> dict[str, Any]:
    colour, dash, mark = _STYLES[place]
    points = _outline(values, angles, top, "value")
    dots = [
        {"group": axis[0], "title": f"{' '.join(axis)} {values[axis].value:.2f}", "x": x, "y": y}
        for axis, (x, y) in zip((axis for axis in angles if axis in values), points, strict=True)
    ]
    return {
        "name": name,
        "colour": colour,
        "dash": dash,
        "mark": mark,
        "points": points,
        "dots": dots,
        "closed": len(points) == len(angles),
        "legend_y": _LEGEND_TOP + _LEGEND_STEP * place,
    }


def _outline(values: Mapping[Axis, Interval], angles: Mapping[Axis, float], top: float, end: str) -> list[Point]:
    return [_point(angle, getattr(values[axis], end) / top) for axis, angle in angles.items() if axis in values]


def _point(angle: float, share: float) -> Point:
    x, y = _CENTRE
    return round(x + _RADIUS * share * math.cos(angle), 1), round(y + _RADIUS * share * math.sin(angle), 1)
