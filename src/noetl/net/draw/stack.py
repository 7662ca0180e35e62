"""How high everything stands: the layers, the gaps between them, the wires there."""

from __future__ import annotations

from noetl.net.draw.plan import Lane, Plan

MARGIN = 28.0
LABEL_HEIGHT = 20.0
_GAP = 18.0
_WIRE = 9.0


class Stack:
    """A top and a height for each layer of an arranged plan."""

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
        """An odd layer without labels, which a curve may cross anywhere."""
        return self._heights[layer] == 0

    def wire(self, gap: int, lane: Lane) -> float:
        """The height on which a lane crosses to the side, above layer ``gap``."""
        wires = self._wires[gap]
        room = self._tops[gap] - (self.bottom(gap - 1) if gap else 0.0)
        share = (wires.index(lane) + 1) / (len(wires) + 1)
        return self._tops[gap] - room * (1 - share)

    def _height_of(self, layer: int) -> float:
        grid = self._plan.grid
        if layer >= len(grid.layers):
            return 0.0
        spots = [grid.spots[number] for number in grid.layers[layer]]
        if layer % 2:
            return LABEL_HEIGHT if any(spot.left > 4 for spot in spots) else 0.0
        numbers = [spot.box for spot in spots if spot.box is not None]
        return max((self._plan.boxes[n].height for n in numbers), default=0.0)

    def _gap_above(self, layer: int) -> float:
        """Room for the wires, and more of it where curves have far to go aside."""
        grid = self._plan.grid
        wires = _WIRE * len(self._wires.get(layer, ()))
        if layer == 0 or layer >= len(grid.layers):
            return wires + (_GAP if wires else 0.0)
        steepest = max(
            (
                abs(grid.spots[number].x - grid.spots[other].x)
                for number in grid.layers[layer]
                for other in grid.spots[number].above
            ),
            default=0.0,
        )
        return _GAP + min(42.0, 0.09 * steepest) + wires
