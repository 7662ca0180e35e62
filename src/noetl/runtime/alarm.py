"""The next moment at which something is due: kept in memory, found again in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from heapq import heappop, heappush

from noetl.ports import Clock

LONGEST = 3600.0
"""Seconds to sleep at most: the system's clock may be set forward meanwhile."""


class Alarm:
    """Rings when a moment has come, late rather than never and never early."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._moments: list[float] = []
        self._changed = asyncio.Event()

    def set(self, moment: float) -> None:
        first = self._moments[0] if self._moments else None
        heappush(self._moments, moment)
        if first is None or moment < first:
            self._changed.set()

    async def serve(self, ring: Callable[[], Awaitable[None]]) -> None:
        while True:
            self._changed.clear()
            if not self._moments:
                await self._changed.wait()
                continue
            left = self._moments[0] - self._clock.now()
            if left > 0:
                await self._sleep(min(left, LONGEST))
                continue
            while self._moments and self._moments[0] <= self._clock.now():
                heappop(self._moments)
            await ring()

    async def _sleep(self, seconds: float) -> None:
        """So long, or until an earlier moment is set."""
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({sleeping, changed}, return_when="FIRST_COMPLETED")
        finally:
            sleeping.cancel()
            changed.cancel()
