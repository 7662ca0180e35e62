"""Last phase: draws the line of each arc, from one box down to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from noetl.net.draw.layout.coordinates import Stack, space_out
from noetl.net.draw.layout.crossings import Grid, GridNode
from noetl.net.draw.layout.graph import Point, Route
from noetl.net.draw.layout.layers import Plan

Role = Literal["trunk", "branch", "tap"]

_PORT = 18.0
_HEAD = 8.0  # the last part is straight, so that the arrow head points down


class Router:
    """Draws lines over a plan whose nodes, layers and lanes have positions."""

    def __init__(self, plan: Plan, stack: Stack) -> None:
        self._plan = plan
        self._stack = stack
        self._roles = self._cast_roles()
        self._leaving = self._spread_ports(outgoing=True)
        self._entering = self._spread_ports(outgoing=False)

    def corner(self, box: int) -> Point:
        """Return the top left corner of a box, centred in its layer."""
        node, shape = self._plan.grid.nodes[box], self._plan.boxes[box]
        return node.x - shape.width / 2, self._head(box)

    def draw(self, link: int) -> Route | None:
        """Return the corners of one line; None for an arc from a box to itself."""
        if link not in self._plan.bends:
            return None
        if link in self._plan.lane_of:
            return self._draw_wire(link)
        return self._draw_curve(link)

    def _head(self, box: int) -> float:
        layer = 2 * self._plan.ranks[box]
        return self._stack.middle(layer) - self._plan.boxes[box].height / 2

    def _foot(self, box: int) -> float:
        return self._head(box) + self._plan.boxes[box].height

    def _draw_curve(self, link: int) -> Route:
        ends = self._plan.links[link]
        points = self._leave(link)
        for number in self._plan.bends[link]:
            node = self._plan.grid.nodes[number]
            if node.is_idle or (node.layer % 2 and self._stack.is_open(node.layer)):
                continue
            points.append((node.x, self._stack.top(node.layer)))
            points.append((node.x, self._stack.bottom(node.layer)))
        x = self._entering[link]
        points.append((x, self._stack.top(2 * self._plan.ranks[ends.target]) - _HEAD))
        points.append((x, self._head(ends.target)))
        return Route(tuple(points), True, self._label_at(link))

    def _draw_wire(self, link: int) -> Route:
        lane, stub = self._plan.lane_of[link], self._stub(link)
        exit_y = self._stack.wire(self._plan.gap_below(link), lane)
        entry_y = self._stack.wire(self._plan.gap_above(lane), lane)
        points = self._leave(link)
        points += [(stub.x, self._stack.top(stub.layer)), (stub.x, exit_y)]
        role = self._roles[link]
        if role != "tap":
            points.append((lane.x, exit_y))
        if role == "branch":
            points.append((lane.x, exit_y + (12.0 if entry_y > exit_y else -12.0)))
        elif role == "trunk":
            x = self._entering[link]
            points += [(lane.x, entry_y), (x, entry_y), (x, self._head(lane.target))]
        return Route(tuple(points), False, self._label_at(link), role == "trunk")

    def _cast_roles(self) -> dict[int, Role]:
        """Choose the trunk among the wires of a lane; the others end where they meet
        it.

        In each gap the longest wire reaches the lane, others join it from above.
        """
        roles: dict[int, Role] = {}
        for lane in self._plan.lanes.values():
            longest: dict[int, int] = {}
            for link in sorted(lane.links, key=lambda n: abs(self._stub(n).x - lane.x)):
                roles[link] = "tap"
                longest[self._plan.gap_below(link)] = link
            for link in longest.values():
                roles[link] = "branch"
            farthest = max(longest) if lane.is_left else min(longest)
            roles[longest[farthest]] = "trunk"
        return roles

    def _stub(self, link: int) -> GridNode:
        return self._plan.grid.nodes[self._plan.bends[link][0]]

    def _leave(self, link: int) -> list[Point]:
        source = self._plan.links[link].source
        x = self._leaving[link]
        floor = self._stack.bottom(2 * self._plan.ranks[source])
        return [(x, self._foot(source)), (x, floor)]

    def _label_at(self, link: int) -> Point | None:
        if not self._plan.links[link].label:
            return None
        node = self._stub(link)
        return node.x, self._stack.middle(node.layer)

    def _spread_ports(self, outgoing: bool) -> dict[int, float]:
        """Set the points of a box where its lines begin or end, in order."""
        users: dict[int, dict[tuple[float, int], list[int]]] = {}
        for number in self._plan.bends:
            link = self._plan.links[number]
            box = link.source if outgoing else link.target
            key = self._port_key(number, outgoing)
            users.setdefault(box, {}).setdefault(key, []).append(number)
        ports: dict[int, float] = {}
        for box, shared in users.items():
            keys = sorted(shared)
            for key, x in zip(keys, self._place_ports(box, keys), strict=True):
                ports.update((link, x) for link in shared[key])
        return ports

    def _place_ports(self, box: int, keys: list[tuple[float, int]]) -> list[float]:
        """Place ports towards the other end of each line, inside the corners."""
        centre, half = self._plan.grid.nodes[box].x, self._plan.boxes[box].width / 2
        last = len(keys) - 1
        reach = min(half - 14, max(_PORT * last / 2, 0.3 * half))
        low, high = centre - reach, centre + reach
        step = min(_PORT, (high - low) / max(1, last))
        wishes = [min(max(x, low), high) for x, _ in keys]
        offsets = [step * place for place in range(len(keys))]
        places = space_out(wishes, [1.0] * len(keys), offsets)
        return [
            min(max(x, low + step * place), high - step * (last - place))
            for place, x in enumerate(places)
        ]

    def _port_key(self, number: int, outgoing: bool) -> tuple[float, int]:
        """Return the sort key of a line; wires of one lane end in one port."""
        lane = self._plan.lane_of.get(number)
        if lane is not None and not outgoing:
            return lane.x, -1
        bends = self._plan.bends[number]
        node = self._plan.grid.nodes[bends[0] if outgoing else bends[-1]]
        return node.x, number


_CLEARANCE = 9.0
Room = tuple[float, float]


def straighten(plan: Plan) -> None:
    """Move the nodes that carry no label, longest lines first."""
    chains = [
        (number, bends)
        for number, bends in plan.bends.items()
        if number not in plan.lane_of
    ]
    for number, bends in sorted(chains, key=lambda chain: -len(chain[1])):
        link = plan.links[number]
        start, end = plan.grid.nodes[link.source].x, plan.grid.nodes[link.target].x
        if link.label:
            start, bends = plan.grid.nodes[bends[0]].x, bends[1:]
        if len(bends) == 1:
            _settle(plan.grid, bends[0], start, end)
        else:
            _pull(plan.grid, bends, start, end)


def _settle(grid: Grid, bend: int, start: float, end: float) -> None:
    """Move a bend half way; with enough room around it, one curve replaces the bend."""
    low, high = _find_room(grid, bend)
    node, wish, sweep = grid.nodes[bend], (start + end) / 2, 0.2 * abs(start - end)
    node.is_idle = low <= wish - sweep and wish + sweep <= high
    node.x = min(max(wish, low), high)


def _pull(grid: Grid, bends: Sequence[int], start: float, end: float) -> None:
    """Give as many bends in a row as possible one x, as near to the start as possible.

    The last row is aligned with the end instead, so that the line meets its box.
    """
    x = start
    place = 0
    while place < len(bends):
        room, count = _share_room(grid, bends[place:])
        is_last = place + count == len(bends)
        x = min(max(end if is_last else x, room[0]), room[1])
        for bend in bends[place : place + count]:
            grid.nodes[bend].x = x
        place += count


def _share_room(grid: Grid, bends: Sequence[int]) -> tuple[Room, int]:
    low, high = _find_room(grid, bends[0])
    for count, bend in enumerate(bends[1:], start=1):
        more = _find_room(grid, bend)
        if max(low, more[0]) > min(high, more[1]):
            return (low, high), count
        low, high = max(low, more[0]), min(high, more[1])
    return (low, high), len(bends)


def _find_room(grid: Grid, bend: int) -> Room:
    """Return the range between its neighbours, which includes the current x."""
    node = grid.nodes[bend]
    layer = grid.layers[node.layer]
    low, high = float("-inf"), float("inf")
    if node.order > 0:
        before = grid.nodes[layer[node.order - 1]]
        low = min(node.x, before.x + before.right + node.left + _CLEARANCE)
    if node.order + 1 < len(layer):
        after = grid.nodes[layer[node.order + 1]]
        high = max(node.x, after.x - after.left - node.right - _CLEARANCE)
    return low, high
