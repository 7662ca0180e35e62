"""Long polling: claims of remote workers, answered at once or when there is work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from noetl.runtime.dispatcher import WorkItem
from noetl.runtime.orchestrator import Orchestrator
from noetl.runtime.worker_protocol import messages
from noetl.runtime.worker_protocol.idle_workers import WaitingWorker

IsGone = Callable[[], bool]

LOOK_AGAIN_SECONDS = 2.0
"""After this time the store is asked again for a waiting worker. The sweep wakes it
more often than that; this is for a server whose sweep has failed."""
MAX_WORKERS = 10_000
"""Workers for which the server remembers that there was no work."""


def never_gone() -> bool:
    return False


class LongPoll:
    """Holds claims open: a worker that waits gets the next work that begins."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._orchestrator = orchestrator
        self._closed = False
        self._without_work: dict[tuple[str, str], tuple[int, float]] = {}

    def close(self) -> None:
        """Answers all waiting claims without work, and later claims at once."""
        self._closed = True
        self._orchestrator.wakeup.notify()

    async def answer(
        self, asked: messages.ClaimRequest, is_gone: IsGone
    ) -> tuple[Sequence[WorkItem], float]:
        """Return work, and for how many seconds the claim had waited when its leases
        were asked for."""
        orchestrator, loop = self._orchestrator, asyncio.get_running_loop()
        woken = orchestrator.wakeup.listen()
        since = began = loop.time()
        until = since + min(asked.wait_seconds, messages.MAX_WAIT_SECONDS)
        works: Sequence[WorkItem] = []
        while not self._closed:
            woken.clear()
            look = self._next_look(asked)
            if look <= loop.time():
                began = loop.time()
                look = loop.time() + LOOK_AGAIN_SECONDS
                works = await self._find(asked, look)
            left = min(look, until) - loop.time()
            if not works and left > 0:
                works, began = await self._wait(asked, woken, left, is_gone)
            if works or is_gone() or loop.time() >= until:
                break
        if works and is_gone():
            await orchestrator.assignment.release([work.lease for work in works])
            works = []
        return works, began - since

    def _next_look(self, asked: messages.ClaimRequest) -> float:
        """Return the time of the next query: now, or later if the store had no work for
        this worker and no wake-up came since.
        """
        wakeups, look = self._without_work.get((asked.worker, asked.pool), (-1, 0.0))
        if (
            asked.is_retry
            or not asked.wait_seconds
            or wakeups != self._orchestrator.wakeup.count
        ):
            return 0.0
        return look

    async def _find(
        self, asked: messages.ClaimRequest, look: float
    ) -> Sequence[WorkItem]:
        wakeups, key = self._orchestrator.wakeup.count, (asked.worker, asked.pool)
        works = await self._lost(asked) or await self._orchestrator.assignment.claim(
            asked.worker, asked.slots, asked.pool, waits=asked.waits
        )
        if not works and not asked.waits:
            self._without_work[key] = wakeups, look
            if len(self._without_work) > MAX_WORKERS:
                del self._without_work[next(iter(self._without_work))]
        return works

    async def _wait(
        self,
        asked: messages.ClaimRequest,
        woken: asyncio.Event,
        seconds: float,
        is_gone: IsGone,
    ) -> tuple[Sequence[WorkItem], float]:
        """Wait for a wake-up, or until this worker gets work that begins; return it,
        and when its slots were reserved."""
        clock = asyncio.get_running_loop().time
        waiting = WaitingWorker(asked.worker, asked.slots, woken, is_gone, clock)
        with (
            self._orchestrator.idle_workers.hold(waiting, asked.pool),
            suppress(TimeoutError),
        ):
            await asyncio.wait_for(woken.wait(), seconds)
        while waiting.promised:
            woken.clear()
            await woken.wait()
        return waiting.works, waiting.reserved_at

    async def _lost(self, asked: messages.ClaimRequest) -> list[WorkItem]:
        """Return work of an earlier answer that did not reach the worker."""
        if not asked.is_retry:
            return []
        leases = await self._orchestrator.store.held(asked.worker)
        names = [each.command_id for each in leases]
        rows = await self._orchestrator.store.commands(names)
        lost = [
            each
            for each in leases
            if each.command_id not in asked.held_commands
            and each.command_id in rows
            and rows[each.command_id].pool == asked.pool
        ][: asked.slots]
        if not lost:
            return []
        # Their time began with the lost answer, and may be over in a moment.
        gone = set(await self._orchestrator.assignment.renew(lost))
        kept = [lease for lease in lost if lease not in gone]
        return await self._orchestrator.assignment.work_for(kept, {})
