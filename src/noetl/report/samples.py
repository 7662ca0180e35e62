"""The first and the last of many: what a page shows of a log that has no bounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Sample(Generic[T]):
    """Keeps ``head`` of the first, ``tail`` of the last, and ``marked`` in between."""

    def __init__(self, head: int, tail: int, marked: int = 0) -> None:
        self.count = 0
        self._head: dict[int, T] = {}
        self._tail: deque[tuple[int, T]] = deque(maxlen=tail)
        self._marked: dict[int, T] = {}
        self._most = (head, marked)

    def add(self, item: T) -> int:
        """The number of the item, by which it can be marked, too."""
        number = self.count
        self.count += 1
        if number < self._most[0]:
            self._head[number] = item
        else:
            self._tail.append((number, item))
        return number

    def mark(self, number: int, item: T) -> None:
        """This one is worth showing, wherever it stands; of such ones the first."""
        if number not in self._head and len(self._marked) < self._most[1]:
            self._marked[number] = item

    def kept(self) -> dict[int, T]:
        """By their numbers, in order."""
        found = {**self._head, **self._marked, **dict(self._tail)}
        return dict(sorted(found.items()))

    def parts(self) -> Iterator[tuple[int, T | None]]:
        """What is kept, in order; ``(n, None)`` where n were left out."""
        expected = 0
        for number, item in self.kept().items():
            if number > expected:
                yield number - expected, None
            yield number, item
            expected = number + 1
        if self.count > expected:
            yield self.count - expected, None
