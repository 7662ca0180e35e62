"""How often somebody may try: a sliding window for each key, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable


class Attempts:
    """At most ``limit`` attempts of a key in ``seconds``.

    A key that is new while ``capacity`` keys are remembered displaces the one that
    tried longest ago.
    """

    def __init__(
        self, limit: int, seconds: float = 60.0, capacity: int = 100_000
    ) -> None:
        self._limit = limit
        self._seconds = seconds
        self._capacity = capacity
        self._tries: OrderedDict[Hashable, deque[float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tries)

    def take(self, key: Hashable, now: float) -> float | None:
        """Count an attempt, or say in how many seconds the next one is free."""
        tries = self._tries.setdefault(key, deque())
        self._tries.move_to_end(key)
        while tries and not 0 <= now - tries[0] < self._seconds:
            tries.popleft()
        if len(tries) >= self._limit:
            return tries[0] + self._seconds - now
        tries.append(now)
        while len(self._tries) > self._capacity:
            self._tries.popitem(last=False)
        return None

    def forget(self, key: Hashable) -> None:
        """It was them: what they mistyped does not count."""
        self._tries.pop(key, None)
