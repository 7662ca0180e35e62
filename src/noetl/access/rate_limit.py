"""Rate limits in bounded memory; callers pass the time."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable

START_RATE = 500.0
"""Executions per second that one caller may start (row 67)."""
CLAIM_RATE = 200.0
"""Claims per second of one worker (row 78); the answer to a faster worker is
delayed."""
HOOK_RATE = 50.0
"""Deliveries per second that one webhook accepts."""
REVIEW_RATE = 4.0
"""Reviews of playbook texts per second and caller: an editor asks after each rest."""
PUBLIC_RATE = 200.0
"""Requests per second of one address to routes without authentication."""
BURST = 4.0
"""Seconds of its rate that a caller may use at once."""
_MAX_CALLERS = 10_000
"""Callers in memory; the least recently seen caller is evicted first."""


class SlidingWindow:
    """At most ``limit`` attempts of a key in ``seconds``.

    A new key above ``capacity`` evicts the key with the oldest attempt.
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
        """Count an attempt, or return the seconds until the next one is allowed."""
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
        """Forget the attempts of a key after a successful sign-in."""
        self._tries.pop(key, None)


class TokenBucket:
    """Allows a burst at once, then a steady rate (row 67)."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._burst = rate * BURST
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(
        self, who: str, now: float, own: tuple[int, float] | None = None
    ) -> float | None:
        """Count a start, or return the seconds until the next one is allowed.

        ``own`` overrides the limit: a count, and the seconds that it is for.
        """
        rate, burst = self._rate, self._burst
        if own is not None:
            rate, burst = own[0] / own[1], float(own[0])
        left, before = self._left.get(who, (burst, now))
        left = min(burst, left + max(0.0, now - before) * rate)
        taken = left >= 1
        self._left[who] = (left - 1 if taken else left, now)
        self._left.move_to_end(who)
        if len(self._left) > _MAX_CALLERS:
            self._left.popitem(last=False)
        return None if taken else (1 - left) / rate
