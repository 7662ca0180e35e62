"""Where the lanes run: as near to the boxes as the layers beside them allow."""

from __future__ import annotations

from noetl.net.draw.plan import Lane, Plan

_DISTANCE = 26.0
_BETWEEN = 12.0


def place_lanes(plan: Plan) -> None:
    """Give every lane its ``x``; short ones stand inside, long ones outside."""
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
    spots = [plan.grid.spots[number] for number in plan.grid.layers[layer]]
    return (
        min((spot.x - spot.left for spot in spots), default=0.0),
        max((spot.x + spot.right for spot in spots), default=0.0),
    )


def _run_together(one: Lane, other: Lane) -> bool:
    return (
        one.is_left == other.is_left
        and one.gaps[0] <= other.gaps[-1]
        and other.gaps[0] <= one.gaps[-1]
    )
