"""A layered picture of a graph: levels, few crossings, long arcs at the side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from noetl.net.draw.bends import straighten
from noetl.net.draw.lanes import place_lanes
from noetl.net.draw.plan import Plan
from noetl.net.draw.routes import Router
from noetl.net.draw.shapes import Box, Layout, Link, Point, Route
from noetl.net.draw.stack import MARGIN, Stack


def lay_out(boxes: Sequence[Box], links: Sequence[Link], first: int = 0) -> Layout:
    """Place everything, ``first`` on top; the same input gives the same picture."""
    plan = Plan(boxes, links, first)
    plan.grid.arrange()
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
    spots = plan.grid.spots
    return (
        min(chain((spot.x - spot.left for spot in spots), lanes), default=0.0),
        max(chain((spot.x + spot.right for spot in spots), lanes), default=0.0),
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
