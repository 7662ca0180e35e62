"""Claims of workers elsewhere: answered at once, or as soon as there is something."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from noetl.runtime import wire
from noetl.runtime.live import Work
from noetl.runtime.orchestrator import Orchestrator
from noetl.runtime.staff import Waiting

IsGone = Callable[[], bool]

LOOK_AGAIN = 2.0
"""Seconds after which a waiting worker's question is put to the store again. The sweep
rings the bell more often than that; this is for a server whose sweep has failed."""
MOST_WORKERS = 10_000
"""Workers of which it is known that there was nothing for them."""


def stays() -> bool:
    return False


class Claims:
    """Who waits here is given work by those who begin some."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._orchestrator = orchestrator
        self._closed = False
        self._quiet: dict[tuple[str, str], tuple[int, float]] = {}

    def close(self) -> None:
        """Whoever waits for work is told that there is none, and asks elsewhere."""
        self._closed = True
        self._orchestrator.bell.ring()

    async def answer(self, asked: wire.Claim, is_gone: IsGone) -> Sequence[Work]:
        orchestrator, loop = self._orchestrator, asyncio.get_running_loop()
        heard = orchestrator.bell.listen()
        until = loop.time() + min(asked.wait, wire.LONGEST_WAIT)
        works: Sequence[Work] = []
        while not self._closed:
            heard.clear()
            look = self._quiet_until(asked)
            if look <= loop.time():
                look = loop.time() + LOOK_AGAIN
                works = await self._find(asked, look)
            left = min(look, until) - loop.time()
            if not works and left > 0:
                works = await self._wait(asked, heard, left, is_gone)
            if works or is_gone() or loop.time() >= until:
                break
        if works and is_gone():
            await orchestrator.release([work.lease for work in works])
            return []
        return works

    def _quiet_until(self, asked: wire.Claim) -> float:
        """Nothing was there for this worker, and nobody has rung since: then the store
        need not be asked before so late."""
        rings, look = self._quiet.get((asked.worker, asked.pool), (-1, 0.0))
        if asked.again or not asked.wait or rings != self._orchestrator.bell.rings:
            return 0.0
        return look

    async def _find(self, asked: wire.Claim, look: float) -> Sequence[Work]:
        rings, key = self._orchestrator.bell.rings, (asked.worker, asked.pool)
        works = await self._unheard(asked) or await self._orchestrator.claim(
            asked.worker, asked.slots, asked.pool
        )
        if not works:
            self._quiet[key] = rings, look
            if len(self._quiet) > MOST_WORKERS:
                del self._quiet[next(iter(self._quiet))]
        return works

    async def _wait(
        self, asked: wire.Claim, heard: asyncio.Event, seconds: float, is_gone: IsGone
    ) -> Sequence[Work]:
        """Until the bell rings, or whoever begins something gives it to this one."""
        waiting = Waiting(asked.worker, asked.slots, heard, is_gone)
        with (
            self._orchestrator.staff.hold(waiting, asked.pool),
            suppress(TimeoutError),
        ):
            await asyncio.wait_for(heard.wait(), seconds)
        while waiting.promised:
            heard.clear()
            await heard.wait()
        return waiting.works

    async def _unheard(self, asked: wire.Claim) -> list[Work]:
        """What it was given before, in an answer that never reached it."""
        if not asked.again:
            return []
        leases = await self._orchestrator.store.held(asked.worker)
        names = [each.command_id for each in leases]
        rows = await self._orchestrator.store.commands(names)
        unheard = [
            each
            for each in leases
            if each.command_id not in asked.holds
            and each.command_id in rows
            and rows[each.command_id].pool == asked.pool
        ]
        return await self._orchestrator.works_of(unheard[: asked.slots], {})
