"""How often each may ask for something: a bucket that fills up again."""

from __future__ import annotations

from collections import OrderedDict

RATE = 500.0
CLAIMS = 200.0
"""Claims a second of one worker (row 78): one that has to wait is answered late."""
HOOK_RATE = 50.0
"""Deliveries a second that one webhook takes."""
PUBLIC_RATE = 200.0
"""Requests a second of one address to routes that ask for no account."""
BURST = 4.0
"""Seconds of its rate that a caller may use up at once."""
_MOST = 10_000
"""Callers that are remembered; who started least recently is forgotten first."""


class Pace:
    """A burst is taken whole; what goes on for longer, at its rate (row 67)."""

    def __init__(self, rate: float = RATE) -> None:
        self._rate = rate
        self._burst = rate * BURST
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(
        self, who: str, now: float, own: tuple[int, float] | None = None
    ) -> float | None:
        """Count a start, or say in how many seconds the next one is free.

        ``own`` is what this one may: so many, in so many seconds.
        """
        rate, burst = self._rate, self._burst
        if own is not None:
            rate, burst = own[0] / own[1], float(own[0])
        left, before = self._left.get(who, (burst, now))
        left = min(burst, left + max(0.0, now - before) * rate)
        taken = left >= 1
        self._left[who] = (left - 1 if taken else left, now)
        self._left.move_to_end(who)
        if len(self._left) > _MOST:
            self._left.popitem(last=False)
        return None if taken else (1 - left) / rate
