"""Fourth phase: gives nodes and lanes an x, layers and the wires between them a y."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.net.draw.layout.crossings import Grid
from noetl.net.draw.layout.layers import Lane, Plan

MARGIN = 28.0
LABEL_HEIGHT = 20.0
_GAP = 18.0
_WIRE = 9.0
_SWEEPS = 8
_SPACING = 22.0
_DISTANCE = 26.0
_BETWEEN = 12.0


def place_nodes(grid: Grid) -> None:
    """Give every node its ``x``: near its neighbours, in the order of its layer."""
    for layer in grid.layers:
        _spread(grid, layer, [0.0] * len(layer))
    for sweep in range(_SWEEPS):
        downwards = sweep % 2 == 0
        for layer in grid.layers if downwards else reversed(grid.layers):
            wishes = [_wish(grid, number, sweep, downwards) for number in layer]
            _spread(grid, layer, wishes)
    leftmost = min((node.x - node.left for node in grid.nodes), default=0.0)
    for node in grid.nodes:
        node.x -= leftmost


def _wish(grid: Grid, number: int, sweep: int, downwards: bool) -> float:
    node = grid.nodes[number]
    near = node.above if downwards else node.below
    if sweep >= _SWEEPS - 2:
        near = node.above + node.below  # in the last sweeps, between both neighbours
    if not near:
        return node.x
    weight = sum(grid.nodes[other].weight for other in near)
    pull = sum(grid.nodes[other].x * grid.nodes[other].weight for other in near)
    return pull / weight


def _spread(grid: Grid, layer: list[int], wishes: Sequence[float]) -> None:
    weights = [grid.nodes[number].weight for number in layer]
    places = space_out(wishes, weights, _offsets(grid, layer))
    for number, x in zip(layer, places, strict=True):
        grid.nodes[number].x = x


def _offsets(grid: Grid, layer: list[int]) -> list[float]:
    offsets: list[float] = []
    for place, number in enumerate(layer):
        if place == 0:
            offsets.append(0.0)
            continue
        before, node = grid.nodes[layer[place - 1]], grid.nodes[number]
        offsets.append(offsets[-1] + before.right + _SPACING + node.left)
    return offsets


def space_out(
    wishes: Sequence[float], weights: Sequence[float], offsets: Sequence[float]
) -> list[float]:
    """Return positions that keep the distances of ``offsets``, or more.

    Items that want the same room form a block, which moves to the weighted mean of
    their wishes (pool adjacent violators), so the sum of squares is the least.
    """
    blocks: list[tuple[float, float, int]] = []  # mean, weight, count
    for wish, weight, offset in zip(wishes, weights, offsets, strict=True):
        mean, heavy, count = wish - offset, weight, 1
        while blocks and blocks[-1][0] > mean:
            before, more, others = blocks.pop()
            mean = (mean * heavy + before * more) / (heavy + more)
            heavy, count = heavy + more, count + others
        blocks.append((mean, heavy, count))
    means = [mean for mean, _, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


class Stack:
    """Top and height of each layer of an arranged plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._wires: dict[int, list[Lane]] = {}
        for lane in plan.lanes.values():
            for gap in lane.gaps:
                self._wires.setdefault(gap, []).append(lane)
        self._tops: list[float] = []
        self._heights: list[float] = []
        y = MARGIN
        for layer in range(
            max([len(plan.grid.layers), *(gap + 1 for gap in self._wires)])
        ):
            y += self._gap_above(layer)
            self._tops.append(y)
            self._heights.append(self._height_of(layer))
            y += self._heights[-1]
        self.height = y + MARGIN

    def top(self, layer: int) -> float:
        return self._tops[layer]

    def bottom(self, layer: int) -> float:
        return self._tops[layer] + self._heights[layer]

    def middle(self, layer: int) -> float:
        return self._tops[layer] + self._heights[layer] / 2

    def is_open(self, layer: int) -> bool:
        """Return whether a layer is odd and has no labels: a curve may cross it
        anywhere."""
        return self._heights[layer] == 0

    def wire(self, gap: int, lane: Lane) -> float:
        """Return the height at which a lane crosses above layer ``gap``."""
        wires = self._wires[gap]
        room = self._tops[gap] - (self.bottom(gap - 1) if gap else 0.0)
        share = (wires.index(lane) + 1) / (len(wires) + 1)
        return self._tops[gap] - room * (1 - share)

    def _height_of(self, layer: int) -> float:
        grid = self._plan.grid
        if layer >= len(grid.layers):
            return 0.0
        nodes = [grid.nodes[number] for number in grid.layers[layer]]
        if layer % 2:
            return LABEL_HEIGHT if any(node.left > 4 for node in nodes) else 0.0
        numbers = [node.box for node in nodes if node.box is not None]
        return max((self._plan.boxes[n].height for n in numbers), default=0.0)

    def _gap_above(self, layer: int) -> float:
        """Return the room for the wires, larger where curves move far sideways."""
        grid = self._plan.grid
        wires = _WIRE * len(self._wires.get(layer, ()))
        if layer == 0 or layer >= len(grid.layers):
            return wires + (_GAP if wires else 0.0)
        steepest = max(
            (
                abs(grid.nodes[number].x - grid.nodes[other].x)
                for number in grid.layers[layer]
                for other in grid.nodes[number].above
            ),
            default=0.0,
        )
        return _GAP + min(42.0, 0.09 * steepest) + wires


def place_lanes(plan: Plan) -> None:
    """Give every lane its ``x``; short lanes inside, long lanes outside."""
    reach = [_find_reach(plan, layer) for layer in range(len(plan.grid.layers))]
    placed: list[Lane] = []
    order = sorted(
        plan.lanes.values(),
        key=lambda lane: (lane.gaps[-1] - lane.gaps[0], lane.gaps[0], lane.target),
    )
    for lane in order:
        beside = reach[max(0, lane.gaps[0] - 1) : lane.gaps[-1] + 1]
        taken = [other.x for other in placed if _run_together(lane, other)]
        if lane.is_left:
            edge = min((left for left, _ in beside), default=0.0)
            lane.x = min([edge - _DISTANCE, *(x - _BETWEEN for x in taken)])
        else:
            edge = max((right for _, right in beside), default=0.0)
            lane.x = max([edge + _DISTANCE, *(x + _BETWEEN for x in taken)])
        placed.append(lane)


def _find_reach(plan: Plan, layer: int) -> tuple[float, float]:
    nodes = [plan.grid.nodes[number] for number in plan.grid.layers[layer]]
    return (
        min((node.x - node.left for node in nodes), default=0.0),
        max((node.x + node.right for node in nodes), default=0.0),
    )


def _run_together(one: Lane, other: Lane) -> bool:
    return (
        one.is_left == other.is_left
        and one.gaps[0] <= other.gaps[-1]
        and other.gaps[0] <= one.gaps[-1]
    )
