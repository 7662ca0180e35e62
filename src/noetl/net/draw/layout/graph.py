"""Input and output of a layout: boxes, links, lines, in the units of the picture."""

from __future__ import annotations

from dataclasses import dataclass

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Box:
    """Box of a layout; ``spare`` is room kept free at its right, for an arc to
    itself."""

    width: float
    height: float
    spare: float = 0.0


@dataclass(frozen=True, slots=True)
class Link:
    """Arc between two boxes, with the width of its label (0: none).

    Arcs of one ``group`` to the same box may share a path.
    """

    source: int
    target: int
    label: float = 0.0
    group: str = ""


@dataclass(frozen=True, slots=True)
class Route:
    """Corners of a line: a curve through layers, or a wire that runs in a lane.

    A wire that meets another one of its lane ends there, and has no head.
    """

    points: tuple[Point, ...]
    is_curve: bool
    label_at: Point | None = None
    has_head: bool = True


@dataclass(frozen=True, slots=True)
class Layout:
    """Boxes by their top left corner; a route per link, None for one to itself."""

    width: float
    height: float
    boxes: tuple[Point, ...]
    routes: tuple[Route | None, ...]
