"""Boxes and bends in layers, ordered so that few lines cross, then given an x."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

from noetl.net.draw.spacing import space_out

_SWEEPS = 8
_SPACING = 22.0


@dataclass(slots=True)
class Spot:
    """A place in a layer: a box, or a point that a line must pass.

    ``left`` and ``right`` are how far it extends from its ``x``. A line need not stop
    at an idle one. ``leaning`` draws it to the left (negative) or right of others.
    """

    layer: int
    left: float
    right: float
    box: int | None = None
    weight: float = 1.0
    leaning: float = 0.0
    x: float = 0.0
    order: int = 0
    is_idle: bool = False
    above: list[int] = field(default_factory=list)
    below: list[int] = field(default_factory=list)


class Grid:
    """The spots of a drawing, layer by layer."""

    def __init__(self) -> None:
        self.spots: list[Spot] = []
        self.layers: list[list[int]] = []

    def add(self, spot: Spot) -> int:
        while len(self.layers) <= spot.layer:
            self.layers.append([])
        number = len(self.spots)
        spot.order = len(self.layers[spot.layer])
        self.spots.append(spot)
        self.layers[spot.layer].append(number)
        return number

    def connect(self, upper: int, lower: int) -> None:
        self.spots[upper].below.append(lower)
        self.spots[lower].above.append(upper)

    def arrange(self) -> None:
        """Order every layer, then place its spots."""
        best, fewest = self.layers, float("inf")
        for sweep in range(_SWEEPS):
            self._sort_layers(downwards=sweep % 2 == 0)
            crossings = self._count_crossings()
            if crossings < fewest:
                best, fewest = [list(layer) for layer in self.layers], crossings
            if not crossings:
                break
        self.layers = best
        for layer in self.layers:
            self._renumber(layer)
        self._place()

    def _sort_layers(self, downwards: bool) -> None:
        for layer in self.layers if downwards else reversed(self.layers):
            keys = {number: self._barycentre(number, downwards) for number in layer}
            layer.sort(key=lambda number: keys[number])
            self._renumber(layer)

    def _barycentre(self, number: int, downwards: bool) -> float:
        spot = self.spots[number]
        near = spot.above if downwards else spot.below
        if not near:
            return float(spot.order)
        mean = sum(self.spots[other].order for other in near) / len(near)
        return mean + spot.leaning

    def _renumber(self, layer: list[int]) -> None:
        for order, number in enumerate(layer):
            self.spots[number].order = order

    def _count_crossings(self) -> int:
        return sum(self._crossings_below(layer) for layer in self.layers)

    def _crossings_below(self, layer: list[int]) -> int:
        count = 0
        seen: list[int] = []
        for number in layer:
            ends = [self.spots[other].order for other in self.spots[number].below]
            count += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
        return count

    def _place(self) -> None:
        for layer in self.layers:
            self._spread(layer, [0.0] * len(layer))
        for sweep in range(_SWEEPS):
            downwards = sweep % 2 == 0
            for layer in self.layers if downwards else reversed(self.layers):
                wishes = [self._wish(number, sweep, downwards) for number in layer]
                self._spread(layer, wishes)
        leftmost = min((spot.x - spot.left for spot in self.spots), default=0.0)
        for spot in self.spots:
            spot.x -= leftmost

    def _wish(self, number: int, sweep: int, downwards: bool) -> float:
        spot = self.spots[number]
        near = spot.above if downwards else spot.below
        if sweep >= _SWEEPS - 2:
            near = spot.above + spot.below  # at last, between both neighbours
        if not near:
            return spot.x
        weight = sum(self.spots[other].weight for other in near)
        pull = sum(self.spots[other].x * self.spots[other].weight for other in near)
        return pull / weight

    def _spread(self, layer: list[int], wishes: Sequence[float]) -> None:
        weights = [self.spots[number].weight for number in layer]
        places = space_out(wishes, weights, self._offsets(layer))
        for number, x in zip(layer, places, strict=True):
            self.spots[number].x = x

    def _offsets(self, layer: list[int]) -> list[float]:
        offsets: list[float] = []
        for place, number in enumerate(layer):
            if place == 0:
                offsets.append(0.0)
                continue
            before, spot = self.spots[layer[place - 1]], self.spots[number]
            offsets.append(offsets[-1] + before.right + _SPACING + spot.left)
        return offsets
