"""A radar of the eleven configs, as SVG: one line a model, told apart by colour, dash and mark."""

__all__ = ["MOST", "radar_svg"]

import math
from collections.abc import Sequence
from html import escape

from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.leaderboard.board import LAYOUT, BoardRow

MOST = 6
"""So many models can be told apart."""

# Okabe and Ito's colours, which hold for the colour-blind; each with a dash and a mark of its own.
_STYLES = (
    ("#0072b2", "", "circle"),
    ("#d55e00", "7 3", "square"),
    ("#009e73", "2 3", "triangle"),
    ("#cc79a7", "9 3 2 3", "diamond"),
    ("#e69f00", "4 2", "cross"),
    ("#56b4e9", "1 2", "ring"),
)
_RADIUS, _WIDTH, _HEIGHT = 170, 640, 500
_AXES = [cell for cell in LAYOUT if cell in TASKS]


def radar_svg(rows: Sequence[BoardRow]) -> str:
    """The radar of up to :data:`MOST` rows of one board; axes from 0 to the next twenty above the best figure.

    A config that is not known of a model is left out of its line.
    """
    best = max((row.cells[axis] or 0 for row in rows for axis in _AXES), default=0)
    top = max(20, 20 * math.ceil(best / 20))
    height = _HEIGHT + 24 * len(rows)
    parts = [
        f'<svg class="radar" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="Radar of the eleven configs, '
        f'0 to {top}">'
    ]
    parts += [_grid(top), *(_axis(place) for place in range(len(_AXES)))]
    for place, row in enumerate(rows[:MOST]):
        parts += [_line(row, place, top), _legend(row, place)]
    return "".join([*parts, "</svg>"])


def _point(place: int, share: float) -> tuple[float, float]:
    angle = 2 * math.pi * place / len(_AXES) - math.pi / 2
    return _WIDTH / 2 + share * _RADIUS * math.cos(angle), _HEIGHT / 2 + share * _RADIUS * math.sin(angle)


def _ring(share: float) -> str:
    return " ".join("{:.1f},{:.1f}".format(*_point(place, share)) for place in range(len(_AXES)))


def _grid(top: int) -> str:
    rings = []
    for value in range(20, top + 1, 20):
        x, y = _point(0, value / top)
        rings.append(f'<polygon class="grid" points="{_ring(value / top)}"/>')
        rings.append(f'<text class="scale" x="{x + 4:.1f}" y="{y - 3:.1f}">{value}</text>')
    return "".join(rings)


def _axis(place: int) -> str:
    x, y = _point(place, 1)
    tx, ty = _point(place, 1.1)
    cell = _AXES[place]
    side = abs(tx - _WIDTH / 2)
    anchor = "middle" if side < 30 else "start" if tx > _WIDTH / 2 else "end"
    name = cell.removeprefix(LAYOUT[cell])
    ty += -12 if ty < _HEIGHT / 2 - 100 else 0
    return (
        f'<line class="grid" x1="{_WIDTH / 2}" y1="{_HEIGHT / 2}" x2="{x:.1f}" y2="{y:.1f}"/>'
        f'<text class="axis" text-anchor="{anchor}" x="{tx:.1f}" y="{ty:.1f}"><tspan class="dimension">'
        f'{LAYOUT[cell]}</tspan><tspan x="{tx:.1f}" dy="15">{name}</tspan></text>'
    )


def _line(row: BoardRow, place: int, top: int) -> str:
    colour, dash, mark = _STYLES[place]
    known = [(axis, row.cells[cell]) for axis, cell in enumerate(_AXES)]
    points = [(*_point(axis, value / top), _AXES[axis], value) for axis, value in known if value is not None]
    shape = "polygon" if len(points) == len(_AXES) else "polyline"
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in points)
    marks = "".join(
        f"<g><title>{escape(row.model)}: {cell} {value:.2f}</title>{_mark(mark, x, y, colour)}</g>"
        for x, y, cell, value in points
    )
    return (
        f'<{shape} points="{path}" fill="{colour}" fill-opacity="{0.06 if shape == "polygon" else 0}" '
        f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>{marks}'
    )


def _legend(row: BoardRow, place: int) -> str:
    colour, dash, mark = _STYLES[place]
    y = _HEIGHT - 10 + 24 * place
    return (
        f'<line x1="60" y1="{y}" x2="110" y2="{y}" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>'
        f'{_mark(mark, 85, y, colour)}<text class="name" x="122" y="{y + 5}">{escape(row.model)}</text>'
    )


def _mark(mark: str, x: float, y: float, colour: str) -> str:
    if mark == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'
    if mark == "ring":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="none" stroke="{colour}" stroke-width="2"/>'
    corners = {
        "square": ((-4, -4), (4, -4), (4, 4), (-4, 4)),
        "triangle": ((0, -5), (5, 4), (-5, 4)),
        "diamond": ((0, -5.5), (5.5, 0), (0, 5.5), (-5.5, 0)),
        "cross": (
            (-5, -2),
            (-2, -2),
            (-2, -5),
            (2, -5),
            (2, -2),
            (5, -2),
            (5, 2),
            (2, 2),
            (2, 5),
            (-2, 5),
            (-2, 2),
            (-5, 2),
        ),
    }[mark]
    path = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return f'<polygon points="{path}" fill="{colour}"/>'
