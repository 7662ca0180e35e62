"""Registry of workers, saved at intervals for other servers, and their pools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from noetl.errors import StoreError
from noetl.ports import Backlog, Clock
from noetl.ports.access import WorkerRecord, WorkerRecords
from noetl.ports.store import CommandQueue

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


KEPT_S = 1.0
"""Seconds for which an answer is kept: many pages ask for the same one."""
MAX_DELAYED = 20_000
"""Delayed commands that are counted."""
ALIVE_S = 60.0
"""Seconds without a request after which a worker is not counted."""


class PoolLine(msgspec.Struct, frozen=True):
    """A pool: commands that are ready for a worker, delayed, and leased, and the
    workers that asked for work within a minute, with their slots."""

    pool: str
    ready: int
    delayed: int
    leased: int
    workers: int
    slots: int


Measure = Callable[
    [Mapping[str, Backlog], Mapping[str, float], Sequence[WorkerRecord], float], None
]


class PoolQueries:
    """Counts commands and workers by pool."""

    def __init__(self, queue: CommandQueue, roll: WorkerRegistry, clock: Clock) -> None:
        self._queue = queue
        self._roll = roll
        self._clock = clock
        self._at = float("-inf")
        self._last: Sequence[PoolLine] = ()

    async def list_all(self) -> Sequence[PoolLine]:
        """Return the pools by name; the answer may be a second old."""
        now = self._clock.now()
        if not 0 <= now - self._at < KEPT_S:
            self._last, self._at = await self._count(now), now
        return self._last

    async def measure(self, take: Measure) -> None:
        """Pass commands by pool, the times of the oldest ones, and workers to
        ``take``, at this moment. Raises ``StoreError``."""
        backlog = await self._queue.count_commands()
        oldest = await self._queue.oldest_ready()
        take(backlog, oldest, await self._roll.list_all(), self._clock.now())

    async def _count(self, now: float) -> list[PoolLine]:
        backlog = await self._queue.count_commands()
        delayed = await self._queue.count_delayed(limit=MAX_DELAYED)
        alive = [w for w in await self._roll.list_all() if now - w.seen_at <= ALIVE_S]
        names = {*backlog, *delayed, *(each.pool for each in alive)}
        lines = []
        for name in sorted(names):
            own = [each for each in alive if each.pool == name]
            ready, leased = backlog.get(name, Backlog())
            slots = sum(each.slots for each in own)
            waiting = delayed.get(name, 0)
            lines.append(PoolLine(name, ready, waiting, leased, len(own), slots))
        return lines
