"""Which arcs go back, and on which level each box stands."""

from __future__ import annotations

from collections.abc import Sequence

Pair = tuple[int, int]


def find_back_links(size: int, links: Sequence[Pair], first: int) -> set[int]:
    """The links that close a cycle when the boxes are walked from ``first`` on."""
    leaving: list[list[int]] = [[] for _ in range(size)]
    for number, (source, _) in enumerate(links):
        leaving[source].append(number)
    back: set[int] = set()
    state = bytearray(size)  # 0 new, 1 on the way, 2 left behind
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
    """Each box one level below the lowest box that leads to it (longest path).

    Boxes that nothing leads to from ``first`` stand right above what they lead to.
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
    for box in order:  # grows while we walk it
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
