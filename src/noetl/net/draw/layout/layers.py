"""First phases: finds arcs that close a cycle, then assigns boxes and arcs to layers.

Without those arcs the graph has no cycle. They are neither reversed nor removed: they
do not count for the layers, and run in a lane at the side.

Steps take the even layers. In the odd ones each arc has its own node, as wide as its
label, so that labels cover neither boxes nor each other. An arc that goes back or far
down leaves the layers for a lane at the side; all arcs to one step share a lane there,
like the wires of a bus.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from noetl.net.draw.layout.crossings import Grid, GridNode
from noetl.net.draw.layout.graph import Box, Link

Pair = tuple[int, int]


def find_back_links(size: int, links: Sequence[Pair], first: int) -> set[int]:
    """Return the links that close a cycle when walking from ``first``."""
    leaving: list[list[int]] = [[] for _ in range(size)]
    for number, (source, _) in enumerate(links):
        leaving[source].append(number)
    back: set[int] = set()
    state = bytearray(size)  # 0 new, 1 on the current path, 2 finished
    for start in [first, *range(size)]:
        if state[start] == 0:
            _walk(start, links, leaving, state, back)
    return back


def _walk(
    start: int,
    links: Sequence[Pair],
    leaving: list[list[int]],
    state: bytearray,
    back: set[int],
) -> None:
    state[start] = 1
    calls = [(start, iter(leaving[start]))]
    while calls:
        box, rest = calls[-1]
        for number in rest:
            target = links[number][1]
            if state[target] == 1:
                back.add(number)
            elif state[target] == 0:
                state[target] = 1
                calls.append((target, iter(leaving[target])))
                break
        else:
            state[box] = 2
            calls.pop()


def rank_boxes(size: int, forward: Sequence[Pair], first: int) -> list[int]:
    """Return levels: each box is one below the lowest box that leads to it.

    Boxes that nothing leads to from ``first`` stand right above their targets.
    """
    leaving: list[list[int]] = [[] for _ in range(size)]
    waiting = [0] * size
    for source, target in forward:
        leaving[source].append(target)
        waiting[target] += 1
    ranks = [0] * size
    order = [box for box in range(size) if not waiting[box]]
    reached = bytearray(size)
    if size:
        reached[first] = 1
    for box in order:  # grows during the walk
        for target in leaving[box]:
            reached[target] |= reached[box]
            ranks[target] = max(ranks[target], ranks[box] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                order.append(target)
    for box in reversed(order):
        if not reached[box] and leaving[box]:
            ranks[box] = min(ranks[target] for target in leaving[box]) - 1
    return ranks


_FAR = 3  # levels that an arc may pass without a lane


@dataclass(slots=True)
class Lane:
    """Path at the side to one box: at the left for arcs that go back.

    ``gaps`` are the layers above which its wires cross over; ``x`` is set later.
    """

    target: int
    is_left: bool
    links: list[int] = field(default_factory=list)
    gaps: list[int] = field(default_factory=list)
    x: float = 0.0


class Plan:
    """Grid, nodes of each arc, and lanes."""

    def __init__(self, boxes: Sequence[Box], links: Sequence[Link], first: int) -> None:
        self.boxes = boxes
        self.links = links
        self.grid = Grid()
        self.bends: dict[int, list[int]] = {}
        self.lanes: dict[tuple[bool, int, str], Lane] = {}
        self.lane_of: dict[int, Lane] = {}
        pairs = [(link.source, link.target) for link in links]
        back = find_back_links(len(boxes), pairs, first) if boxes else set()
        self.ranks = rank_boxes(
            len(boxes), [pair for n, pair in enumerate(pairs) if n not in back], first
        )
        for number, (box, rank) in enumerate(zip(boxes, self.ranks, strict=True)):
            half = box.width / 2
            self.grid.add(GridNode(2 * rank, half, half + box.spare, box=number))
        for number, link in enumerate(links):
            if link.source != link.target:
                self._add_link(number, link, number in back)
        for lane in self.lanes.values():
            lane.gaps = sorted({self.gap_above(lane), *self._gaps_below(lane)})

    def gap_above(self, lane: Lane) -> int:
        """Return the gap in which the lane turns to its target."""
        return 2 * self.ranks[lane.target]

    def gap_below(self, link: int) -> int:
        """Return the gap in which an arc turns into its lane."""
        return 2 * self.ranks[self.links[link].source] + 2

    def _gaps_below(self, lane: Lane) -> set[int]:
        return {self.gap_below(number) for number in lane.links}

    def _add_link(self, number: int, link: Link, goes_back: bool) -> None:
        upper, lower = self.ranks[link.source], self.ranks[link.target]
        half = link.label / 2 + 4 if link.label else 2
        bends = [self.grid.add(GridNode(2 * upper + 1, half, half, weight=4))]
        self.bends[number] = bends
        if goes_back or lower - upper > _FAR:
            self.grid.connect(link.source, bends[0])
            self._add_to_lane(number, link, goes_back)
            stub = self.grid.nodes[bends[0]]
            stub.weight = 0.1  # it yields to lines that go down
            stub.leaning = -0.3 if goes_back else 0.3
            return
        for layer in range(2 * upper + 2, 2 * lower):
            bends.append(self.grid.add(GridNode(layer, 4, 4, weight=4)))
        for above, below in pairwise([link.source, *bends, link.target]):
            self.grid.connect(above, below)

    def _add_to_lane(self, number: int, link: Link, goes_back: bool) -> None:
        key = (goes_back, link.target, link.group)
        lane = self.lanes.setdefault(key, Lane(link.target, goes_back))
        lane.links.append(number)
        self.lane_of[number] = lane
