"""Third phase: orders the nodes of each layer for few crossings, by barycentres."""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field

_SWEEPS = 8


@dataclass(slots=True)
class GridNode:
    """Node of a layer: a box, or a point that a line must pass.

    ``left`` and ``right`` are its extents from ``x``. A line need not stop at an idle
    node. ``leaning`` draws it to the left (negative) or right of others.
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
    """Nodes of a drawing, layer by layer."""

    def __init__(self) -> None:
        self.nodes: list[GridNode] = []
        self.layers: list[list[int]] = []

    def add(self, node: GridNode) -> int:
        while len(self.layers) <= node.layer:
            self.layers.append([])
        number = len(self.nodes)
        node.order = len(self.layers[node.layer])
        self.nodes.append(node)
        self.layers[node.layer].append(number)
        return number

    def connect(self, upper: int, lower: int) -> None:
        self.nodes[upper].below.append(lower)
        self.nodes[lower].above.append(upper)

    def reduce_crossings(self) -> None:
        """Order every layer; the best of some sweeps down and up wins."""
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

    def _sort_layers(self, downwards: bool) -> None:
        for layer in self.layers if downwards else reversed(self.layers):
            keys = {number: self._barycentre(number, downwards) for number in layer}
            layer.sort(key=lambda number: keys[number])
            self._renumber(layer)

    def _barycentre(self, number: int, downwards: bool) -> float:
        node = self.nodes[number]
        near = node.above if downwards else node.below
        if not near:
            return float(node.order)
        mean = sum(self.nodes[other].order for other in near) / len(near)
        return mean + node.leaning

    def _renumber(self, layer: list[int]) -> None:
        for order, number in enumerate(layer):
            self.nodes[number].order = order

    def _count_crossings(self) -> int:
        return sum(self._crossings_below(layer) for layer in self.layers)

    def _crossings_below(self, layer: list[int]) -> int:
        count = 0
        seen: list[int] = []
        for number in layer:
            ends = [self.nodes[other].order for other in self.nodes[number].below]
            count += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
        return count
