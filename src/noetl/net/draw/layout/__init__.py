"""Layered layout of a graph, by the method of Sugiyama.

Its phases are modules: ``layers``, ``crossings``, ``coordinates``, ``edges``;
``graph`` has the input and output.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from noetl.net.draw.layout.coordinates import MARGIN, Stack, place_lanes, place_nodes
from noetl.net.draw.layout.edges import Router, straighten
from noetl.net.draw.layout.graph import Box, Layout, Link, Point, Route
from noetl.net.draw.layout.layers import Plan


def lay_out(boxes: Sequence[Box], links: Sequence[Link], first: int = 0) -> Layout:
    """Place all boxes, ``first`` on top; the same input gives the same layout."""
    plan = Plan(boxes, links, first)
    plan.grid.reduce_crossings()
    place_nodes(plan.grid)
    straighten(plan)
    place_lanes(plan)
    stack = Stack(plan)
    router = Router(plan, stack)
    corners = [router.corner(number) for number in range(len(boxes))]
    routes = [router.draw(number) for number in range(len(links))]
    left, right = _find_sides(plan)
    shift = MARGIN - left
    return Layout(
        right - left + 2 * MARGIN,
        stack.height,
        tuple(_move(corner, shift) for corner in corners),
        tuple(route and _move_route(route, shift) for route in routes),
    )


def _find_sides(plan: Plan) -> tuple[float, float]:
    lanes = [lane.x for lane in plan.lanes.values()]
    nodes = plan.grid.nodes
    return (
        min(chain((node.x - node.left for node in nodes), lanes), default=0.0),
        max(chain((node.x + node.right for node in nodes), lanes), default=0.0),
    )


def _move(point: Point, shift: float) -> Point:
    return point[0] + shift, point[1]


def _move_route(route: Route, shift: float) -> Route:
    return Route(
        tuple(_move(point, shift) for point in route.points),
        route.is_curve,
        route.label_at and _move(route.label_at, shift),
        route.has_head,
    )
