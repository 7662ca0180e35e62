"""Walks over a graph given by a function; iterative, in the given order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

Neighbours = Callable[[str], Iterable[str]]


def explore(start: Iterable[str], neighbours: Neighbours) -> dict[str, str | None]:
    """Return every reachable node, nearest first, each with its predecessor."""
    parents: dict[str, str | None] = dict.fromkeys(start)
    pending = deque(parents)
    while pending:
        node = pending.popleft()
        for neighbour in neighbours(node):
            if neighbour not in parents:
                parents[neighbour] = node
                pending.append(neighbour)
    return parents


def trace(parents: dict[str, str | None], node: str) -> tuple[str, ...]:
    """Return the shortest path from a start of ``explore`` to ``node``."""
    path = [node]
    while (parent := parents[path[-1]]) is not None:
        path.append(parent)
    return tuple(reversed(path))


def find_cycle(node: str, neighbours: Neighbours) -> tuple[str, ...]:
    """Return the shortest closed path through ``node``, or nothing."""
    parents = explore(neighbours(node), neighbours)
    return (node, *trace(parents, node)) if node in parents else ()


def find_components(nodes: Iterable[str], neighbours: Neighbours) -> list[list[str]]:
    """Return strongly connected components (Tarjan), each after its targets."""
    return _Tarjan(neighbours).run(nodes)


class _Tarjan:
    def __init__(self, neighbours: Neighbours) -> None:
        self._neighbours = neighbours
        self._index: dict[str, int] = {}
        self._low: dict[str, int] = {}
        self._stack: list[str] = []
        self._stacked: set[str] = set()
        self._found: list[list[str]] = []

    def run(self, nodes: Iterable[str]) -> list[list[str]]:
        for node in nodes:
            if node not in self._index:
                self._visit(node)
        return self._found

    def _visit(self, root: str) -> None:
        calls: list[tuple[str, Iterator[str]]] = [self._enter(root)]
        while calls:
            node, rest = calls[-1]
            for neighbour in rest:
                if neighbour not in self._index:
                    calls.append(self._enter(neighbour))
                    break
                if neighbour in self._stacked:
                    self._low[node] = min(self._low[node], self._index[neighbour])
            else:
                calls.pop()
                self._leave(node, calls[-1][0] if calls else None)

    def _enter(self, node: str) -> tuple[str, Iterator[str]]:
        self._index[node] = self._low[node] = len(self._index)
        self._stack.append(node)
        self._stacked.add(node)
        return node, iter(self._neighbours(node))

    def _leave(self, node: str, caller: str | None) -> None:
        if caller is not None:
            self._low[caller] = min(self._low[caller], self._low[node])
        if self._low[node] != self._index[node]:
            return
        component: list[str] = []
        while not component or component[-1] != node:
            component.append(self._stack.pop())
        self._stacked.difference_update(component)
        self._found.append(component[::-1])
