"""First phase: finds the arcs that close a cycle, without which the graph has none.

They are neither reversed nor removed: they do not count for the layers, and run in a
lane at the side.
"""

from __future__ import annotations

from collections.abc import Sequence

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
