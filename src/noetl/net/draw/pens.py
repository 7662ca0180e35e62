"""SVG path data for the lines of a layout."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import dist

from noetl.net.draw.shapes import Point

_RADIUS = 9.0


def draw_curve(points: Sequence[Point]) -> str:
    """Upright at every corner, so that a line leaves and enters boxes straight."""
    parts = [f"M{_at(points[0])}"]
    for (x, y), (to_x, to_y) in pairwise(points):
        if abs(x - to_x) < 0.05:
            parts.append(f"V{_number(to_y)}")
        else:
            middle = (y + to_y) / 2
            parts.append(
                f"C{_at((x, middle))} {_at((to_x, middle))} {_at((to_x, to_y))}"
            )
    return "".join(parts)


def draw_wire(points: Sequence[Point]) -> str:
    """A curve to the first bend, then straight lines with round corners."""
    parts = [draw_curve(points[:3])]
    rest = list(points[2:])
    for before, corner, after in zip(rest, rest[1:], rest[2:], strict=False):
        start = _toward(corner, before)
        end = _toward(corner, after)
        parts.append(f"L{_at(start)}Q{_at(corner)} {_at(end)}")
    parts.append(f"L{_at(rest[-1])}")
    return "".join(parts)


def draw_self_loop(middle: Point, width: float) -> str:
    """Out of the right side of a box and back into it."""
    x, y = middle
    return (
        f"M{_at((x, y - 8))}C{_at((x + width, y - 20))} "
        f"{_at((x + width, y + 20))} {_at((x + 1, y + 8))}"
    )


def _toward(corner: Point, other: Point) -> Point:
    """A little before the corner, at most half way to the next one."""
    length = dist(corner, other)
    share = min(_RADIUS, length / 2) / length if length else 0.0
    return (
        corner[0] + (other[0] - corner[0]) * share,
        corner[1] + (other[1] - corner[1]) * share,
    )


def _at(point: Point) -> str:
    return f"{_number(point[0])} {_number(point[1])}"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
