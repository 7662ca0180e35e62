"""Who stands in which layer, before anything has a place.

Steps take the even layers. In the odd ones each arc has a spot of its own, as wide
as its label, so that labels cover neither boxes nor each other. An arc that goes back
or far down leaves the layers for a lane at the side; all that lead to one step share
a lane there, like the wires of a bus.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from noetl.net.draw.grid import Grid, Spot
from noetl.net.draw.ranks import find_back_links, rank_boxes
from noetl.net.draw.shapes import Box, Link

_FAR = 3  # levels that an arc may pass without a lane


@dataclass(slots=True)
class Lane:
    """A way at the side to one box: at the left for arcs that go back.

    ``gaps`` are the layers above which its wires cross over; ``x`` comes later.
    """

    target: int
    is_left: bool
    links: list[int] = field(default_factory=list)
    gaps: list[int] = field(default_factory=list)
    x: float = 0.0


class Plan:
    """The grid, the spots of each arc in it, and the lanes."""

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
            self.grid.add(Spot(2 * rank, half, half + box.spare, box=number))
        for number, link in enumerate(links):
            if link.source != link.target:
                self._add_link(number, link, number in back)
        for lane in self.lanes.values():
            lane.gaps = sorted({self.gap_above(lane), *self._gaps_below(lane)})

    def gap_above(self, lane: Lane) -> int:
        """Where the lane turns to its target."""
        return 2 * self.ranks[lane.target]

    def gap_below(self, link: int) -> int:
        """Where an arc turns into its lane."""
        return 2 * self.ranks[self.links[link].source] + 2

    def _gaps_below(self, lane: Lane) -> set[int]:
        return {self.gap_below(number) for number in lane.links}

    def _add_link(self, number: int, link: Link, goes_back: bool) -> None:
        upper, lower = self.ranks[link.source], self.ranks[link.target]
        half = link.label / 2 + 4 if link.label else 2
        bends = [self.grid.add(Spot(2 * upper + 1, half, half, weight=4))]
        self.bends[number] = bends
        if goes_back or lower - upper > _FAR:
            self.grid.connect(link.source, bends[0])
            self._add_to_lane(number, link, goes_back)
            stub = self.grid.spots[bends[0]]
            stub.weight = 0.1  # it makes way for what goes down
            stub.leaning = -0.3 if goes_back else 0.3
            return
        for layer in range(2 * upper + 2, 2 * lower):
            bends.append(self.grid.add(Spot(layer, 4, 4, weight=4)))
        for above, below in pairwise([link.source, *bends, link.target]):
            self.grid.connect(above, below)

    def _add_to_lane(self, number: int, link: Link, goes_back: bool) -> None:
        key = (goes_back, link.target, link.group)
        lane = self.lanes.setdefault(key, Lane(link.target, goes_back))
        lane.links.append(number)
        self.lane_of[number] = lane
