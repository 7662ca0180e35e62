"""Work of families of executions: a few pieces of each family at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Lane:
    """Lets ``width`` pieces of work of each family run at once.

    No family waits for another one: a piece of work may take long, because it asks a
    slow store of secrets.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._running: dict[str, int] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, family: str) -> AsyncIterator[None]:
        """Wait for a turn of this family, and hold it."""
        running = self._running.get(family, 0)
        if running < self._width:
            self._running[family] = running + 1
        else:
            await self._wait(family)
        try:
            yield
        finally:
            self._pass_on(family)

    async def _wait(self, family: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(family, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was given just before
                self._pass_on(family)
            raise

    def _pass_on(self, family: str) -> None:
        """Give the turn to the work of the family that has waited longest."""
        line = self._waiting.get(family, deque())
        while line:
            turn = line.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._waiting.pop(family, None)
        self._running[family] -= 1
        if not self._running[family]:
            del self._running[family]
