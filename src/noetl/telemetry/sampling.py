"""Which iterations of a long loop have spans: those that failed, and slow ones."""

from __future__ import annotations

MAX_ITERATIONS = 1_000
"""Iterations of a loop up to which each of them has a span."""
MAX_KEPT = 1_000
"""Iterations of a longer loop that have spans."""
SLOW = 3.0
"""How many times the mean of the earlier iterations a slow one takes."""
MIN_SLOW_S = 0.1
KNOWN = 20
"""Iterations after which the mean is known."""


class LoopSample:
    """Decides by what the log had before: so each export keeps the same iterations."""

    def __init__(self, total: int) -> None:
        self.is_sampled = total > MAX_ITERATIONS
        self.kept = 0
        self._count = 0
        self._seconds = 0.0

    def keeps(self, seconds: float, *, failed: bool) -> bool:
        """Return whether an iteration that took so long has a span."""
        if not self.is_sampled:
            self.kept += 1
            return True
        is_kept = self.kept < MAX_KEPT and (failed or self._is_slow(seconds))
        self.kept += is_kept
        self._count += 1
        self._seconds += seconds
        return is_kept

    def _is_slow(self, seconds: float) -> bool:
        if self._count < KNOWN:
            return False
        return seconds > max(MIN_SLOW_S, SLOW * self._seconds / self._count)
