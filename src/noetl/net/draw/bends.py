"""Lines pulled straight: each bend moves as far as its neighbours let it."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.net.draw.grid import Grid
from noetl.net.draw.plan import Plan

_CLEARANCE = 9.0
Room = tuple[float, float]


def straighten(plan: Plan) -> None:
    """Move the spots that carry no label; longest lines first, they gain most."""
    chains = [
        (number, bends)
        for number, bends in plan.bends.items()
        if number not in plan.lane_of
    ]
    for number, bends in sorted(chains, key=lambda chain: -len(chain[1])):
        link = plan.links[number]
        start, end = plan.grid.spots[link.source].x, plan.grid.spots[link.target].x
        if link.label:
            start, bends = plan.grid.spots[bends[0]].x, bends[1:]
        if len(bends) == 1:
            _settle(plan.grid, bends[0], start, end)
        else:
            _pull(plan.grid, bends, start, end)


def _settle(grid: Grid, bend: int, start: float, end: float) -> None:
    """Half way; with room enough around it, one curve can do without the bend."""
    low, high = _find_room(grid, bend)
    spot, wish, sweep = grid.spots[bend], (start + end) / 2, 0.2 * abs(start - end)
    spot.is_idle = low <= wish - sweep and wish + sweep <= high
    spot.x = min(max(wish, low), high)


def _pull(grid: Grid, bends: Sequence[int], start: float, end: float) -> None:
    """Give as many bends in a row as possible one x, as near to the start as can be.

    The last row looks at the end instead, so that the line comes down on its box.
    """
    x = start
    place = 0
    while place < len(bends):
        room, count = _share_room(grid, bends[place:])
        is_last = place + count == len(bends)
        x = min(max(end if is_last else x, room[0]), room[1])
        for bend in bends[place : place + count]:
            grid.spots[bend].x = x
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
    """Between its neighbours in the layer; always where it stands now, at least."""
    spot = grid.spots[bend]
    layer = grid.layers[spot.layer]
    low, high = float("-inf"), float("inf")
    if spot.order > 0:
        before = grid.spots[layer[spot.order - 1]]
        low = min(spot.x, before.x + before.right + spot.left + _CLEARANCE)
    if spot.order + 1 < len(layer):
        after = grid.spots[layer[spot.order + 1]]
        high = max(spot.x, after.x - after.left - spot.right - _CLEARANCE)
    return low, high
