"""The roll of workers: what each said last, noted now and then for other servers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from noetl.access.roster import Heard, Roster
from noetl.errors import StoreError
from noetl.ports import Clock

EVERY = 5.0
"""Seconds between two notes of a worker: a busy one asks hundreds of times."""
GONE = 3600.0
"""Seconds of silence after which a worker is left out."""

MOST = 10_000
"""Workers that a server remembers."""


class Roll:
    """Of the workers that ask this server; ``Roster`` has those of all of them."""

    def __init__(self, roster: Roster, clock: Clock) -> None:
        self._roster = roster
        self._clock = clock
        self._last: dict[str, Heard] = {}
        self._noted: dict[str, float] = {}

    async def claims(self, worker: str, pool: str, free: int, address: str) -> None:
        """It asks for work; so many of its slots are free."""
        last = self._last.get(worker)
        slots = free if last is None else max(free, last.slots)
        await self._hear(worker, pool, slots, slots - free, address)

    async def beats(
        self, worker: str, pool: str, slots: int, running: int, address: str
    ) -> None:
        """It says that it lives."""
        await self._hear(worker, pool, slots, running, address)

    async def list_all(self) -> Sequence[Heard]:
        """By pool and name. Raises ``StoreError``."""
        since = self._clock.now() - GONE
        found = {each.worker: each for each in await self._roster.heard(since=since)}
        for name, mine in self._last.items():
            if mine.seen_at >= since and (
                name not in found or mine.seen_at >= found[name].seen_at
            ):
                found[name] = mine
        return sorted(found.values(), key=lambda each: (each.pool, each.worker))

    async def _hear(
        self, worker: str, pool: str, slots: int, running: int, address: str
    ) -> None:
        now = self._clock.now()
        heard = Heard(
            worker=worker,
            pool=pool,
            slots=slots,
            running=running,
            seen_at=now,
            address=address,
        )
        if worker not in self._last and len(self._last) >= MOST:
            await self._tidy(now)
            return
        self._last[worker] = heard
        if now - self._noted.get(worker, -EVERY) < EVERY:
            return
        self._noted[worker] = now
        with suppress(StoreError):  # a note: nobody goes without work for want of it
            await self._roster.note(heard)
        await self._tidy(now)

    async def _tidy(self, now: float) -> None:
        gone = [name for name, last in self._last.items() if now - last.seen_at > GONE]
        for name in gone:
            del self._last[name]
            self._noted.pop(name, None)
        if gone:
            with suppress(StoreError):
                await self._roster.forget(before=now - GONE)
