"""The line of each arc, from the foot of one box to the head of another."""

from __future__ import annotations

from typing import Literal

from noetl.net.draw.grid import Spot
from noetl.net.draw.plan import Plan
from noetl.net.draw.shapes import Point, Route
from noetl.net.draw.spacing import space_out
from noetl.net.draw.stack import Stack

Role = Literal["trunk", "branch", "tap"]

_PORT = 18.0
_HEAD = 8.0  # the last bit is straight, so that the arrow head points down


class Router:
    """Draws lines over a plan whose spots, layers and lanes have their places."""

    def __init__(self, plan: Plan, stack: Stack) -> None:
        self._plan = plan
        self._stack = stack
        self._roles = self._cast_roles()
        self._leaving = self._spread_ports(outgoing=True)
        self._entering = self._spread_ports(outgoing=False)

    def corner(self, box: int) -> Point:
        """The top left corner of a box, centred in its layer."""
        spot, shape = self._plan.grid.spots[box], self._plan.boxes[box]
        return spot.x - shape.width / 2, self._head(box)

    def draw(self, link: int) -> Route | None:
        """The corners of one line; None for an arc from a box to itself."""
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
            spot = self._plan.grid.spots[number]
            if spot.is_idle or (spot.layer % 2 and self._stack.is_open(spot.layer)):
                continue
            points.append((spot.x, self._stack.top(spot.layer)))
            points.append((spot.x, self._stack.bottom(spot.layer)))
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
        """Of the wires of a lane one is the trunk; where others meet it they end.

        In each gap the longest wire reaches the lane, others tap it from above.
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

    def _stub(self, link: int) -> Spot:
        return self._plan.grid.spots[self._plan.bends[link][0]]

    def _leave(self, link: int) -> list[Point]:
        source = self._plan.links[link].source
        x = self._leaving[link]
        floor = self._stack.bottom(2 * self._plan.ranks[source])
        return [(x, self._foot(source)), (x, floor)]

    def _label_at(self, link: int) -> Point | None:
        if not self._plan.links[link].label:
            return None
        spot = self._stub(link)
        return spot.x, self._stack.middle(spot.layer)

    def _spread_ports(self, outgoing: bool) -> dict[int, float]:
        """Where on a box its lines begin or end, in the order in which they come."""
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
        """Towards where each line goes, around the middle, and inside the corners."""
        centre, half = self._plan.grid.spots[box].x, self._plan.boxes[box].width / 2
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
        """Sorted by where the line comes from; wires of one lane end in one port."""
        lane = self._plan.lane_of.get(number)
        if lane is not None and not outgoing:
            return lane.x, -1
        bends = self._plan.bends[number]
        spot = self._plan.grid.spots[bends[0] if outgoing else bends[-1]]
        return spot.x, number
