"""The system's clock, behind its port."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
