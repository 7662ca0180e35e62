"""Registry of workers: the last state of each, saved at intervals for other servers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from noetl.errors import StoreError
from noetl.ports import Clock
from noetl.ports.access import WorkerRecord, WorkerRecords

SAVE_INTERVAL_S = 5.0
"""Seconds between two saves of a worker: a busy one sends hundreds of requests."""
FORGET_AFTER_S = 3600.0
"""Seconds without a request after which a worker is left out."""

MAX_WORKERS = 10_000
"""Maximum workers that a server remembers."""


class WorkerRegistry:
    """The workers that ask this server; ``WorkerRecords`` has those of all servers."""

    def __init__(self, records: WorkerRecords, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._last: dict[str, WorkerRecord] = {}
        self._noted: dict[str, float] = {}

    async def claims(self, worker: str, pool: str, free: int, address: str) -> None:
        """Note a claim of a worker with this number of free slots."""
        last = self._last.get(worker)
        slots = free if last is None else max(free, last.slots)
        await self._record(worker, pool, slots, slots - free, address)

    async def beats(
        self, worker: str, pool: str, slots: int, running: int, address: str
    ) -> None:
        """Note a heartbeat of a worker."""
        await self._record(worker, pool, slots, running, address)

    async def list_all(self) -> Sequence[WorkerRecord]:
        """Return workers by pool and name. Raises ``StoreError``."""
        since = self._clock.now() - FORGET_AFTER_S
        found = {each.worker: each for each in await self._records.seen(since=since)}
        for name, mine in self._last.items():
            if mine.seen_at >= since and (
                name not in found or mine.seen_at >= found[name].seen_at
            ):
                found[name] = mine
        return sorted(found.values(), key=lambda each: (each.pool, each.worker))

    async def _record(
        self, worker: str, pool: str, slots: int, running: int, address: str
    ) -> None:
        now = self._clock.now()
        seen = WorkerRecord(
            worker=worker,
            pool=pool,
            slots=slots,
            running=running,
            seen_at=now,
            address=address,
        )
        if worker not in self._last and len(self._last) >= MAX_WORKERS:
            await self._tidy(now)
            return
        self._last[worker] = seen
        if now - self._noted.get(worker, -SAVE_INTERVAL_S) < SAVE_INTERVAL_S:
            return
        self._noted[worker] = now
        with suppress(StoreError):  # informative only: workers get work without it
            await self._records.note(seen)
        await self._tidy(now)

    async def _tidy(self, now: float) -> None:
        gone = [
            name
            for name, last in self._last.items()
            if now - last.seen_at > FORGET_AFTER_S
        ]
        for name in gone:
            del self._last[name]
            self._noted.pop(name, None)
        if gone:
            with suppress(StoreError):
                await self._records.forget(before=now - FORGET_AFTER_S)
