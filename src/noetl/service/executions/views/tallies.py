"""Tallies of logs: kept in the store at every page of the track, and in memory."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from noetl.engine.events import Event
from noetl.errors import StoreError
from noetl.ports import LogReader, Snapshot, Tallies
from noetl.report.counting import count_event
from noetl.report.run_lines import RunPage
from noetl.report.tally import VERSION, Change, Tally

log = logging.getLogger("noetl.views")

PAGE = 10_000
"""Events between two stored tallies, and of one page of the track."""
SLICE = 500
"""Events that are folded at once: some milliseconds of the event loop."""
KEPT_BYTES = 64 * 1024 * 1024
"""Bytes of stored tallies that stay in memory, too: the logs of other processes are not
written, and have no tallies in the store."""
KEPT = 64
"""Tallies of whole logs in memory; the least recently used are dropped."""


class TalliedLog(LogReader, Tallies, Protocol):
    """Logs and the tallies of them."""


class Folded(msgspec.Struct):
    """The tally of a log up to a position, and the runs of its last page."""

    tally: Tally = msgspec.field(default_factory=Tally)
    runs: RunPage = msgspec.field(default_factory=RunPage)

    def take(self, event: Event) -> list[Change]:
        if event.seq % PAGE == 1 and event.seq > 1:
            self.runs = self.runs.turn()
        changes = count_event(self.tally, event)
        self.runs.take(event, self.tally.undone)
        return changes


_decode = msgspec.json.Decoder(Folded).decode


class Bodies:
    """Encoded folds by execution and position; the least recently used are dropped."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._size = 0

    def nearest(self, execution_id: str, at: int) -> tuple[int, bytes] | None:
        """Return the last one at or before a position."""
        for seq in range(at // PAGE * PAGE, 0, -PAGE):
            body = self._kept.get((execution_id, seq))
            if body is not None:
                self._kept.move_to_end((execution_id, seq))
                return seq, body
        return None

    def keep(self, execution_id: str, seq: int, body: bytes) -> None:
        self._size += len(body) - len(self._kept.pop((execution_id, seq), b""))
        self._kept[execution_id, seq] = body
        while self._size > KEPT_BYTES and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._size -= len(dropped)


class _Latest(msgspec.Struct):
    """The fold at the end of a log; one reader at a time continues it."""

    folded: Folded
    lock: asyncio.Lock


class LogTallies:
    """Folds logs into tallies, from the last one that is stored."""

    def __init__(self, store: TalliedLog) -> None:
        self._store = store
        self._bodies = Bodies()
        self._latest: OrderedDict[str, _Latest] = OrderedDict()

    async def latest(self, execution_id: str, *, is_damaged: bool = False) -> Folded:
        """Return the fold of the whole log; use it before the next ``await``.

        Of a damaged log it ends before the first event that cannot be read.
        """
        kept = self._latest.get(execution_id)
        if kept is None:
            kept = self._latest[execution_id] = _Latest(Folded(), asyncio.Lock())
            while len(self._latest) > KEPT:
                self._latest.popitem(last=False)
        self._latest.move_to_end(execution_id)
        async with kept.lock:
            if not kept.folded.tally.seq:
                kept.folded = await self._stored(execution_id)
            try:
                await self._continue(execution_id, kept.folded)
            except (StoreError, LookupError, TypeError, ValueError):
                if not is_damaged:
                    self._latest.pop(execution_id, None)
                    raise
        return kept.folded

    async def at(self, execution_id: str, seq: int) -> Folded:
        """Return the fold at a position, or at the end of the log before it."""
        folded = await self._stored(execution_id, seq)
        await self._continue(execution_id, folded, seq)
        return folded

    async def changes(
        self, execution_id: str, tally: Tally, until: int
    ) -> AsyncIterator[list[tuple[Event, list[Change]]]]:
        """Fold the events up to a position, and yield those that change something, a
        slice of the log at a time."""
        while size := min(SLICE, until - tally.seq):
            events = await self._store.read(execution_id, after=tally.seq, limit=size)
            folded = [(event, count_event(tally, event)) for event in events]
            yield [each for each in folded if each[1]]
            if len(events) < size:
                break

    async def _stored(self, execution_id: str, at: int | None = None) -> Folded:
        """Return the last fold that is kept, in memory or in the store."""
        if at is None:
            at = await self._store.length(execution_id)
        known = self._bodies.nearest(execution_id, at)
        if known is not None and at - known[0] < PAGE:
            return _decode(known[1])
        found = await self._store.tally(execution_id, VERSION, at=at)
        if found is not None and (known is None or known[0] < found.seq):
            self._bodies.keep(execution_id, found.seq, found.body)
            return _decode(found.body)
        return _decode(known[1]) if known is not None else Folded()

    async def _continue(
        self, execution_id: str, folded: Folded, until: int | None = None
    ) -> None:
        """Fold up to a position, by default to the end; store a tally at each page.

        What is committed meanwhile is for the next answer.
        """
        while size := _slice(folded.tally.seq, until):
            seq = folded.tally.seq
            events = await self._store.read(execution_id, after=seq, limit=size)
            for event in events:
                folded.take(event)
            if events and folded.tally.seq % PAGE == 0:
                await self._keep(execution_id, folded)
            if len(events) < size:
                return

    async def _keep(self, execution_id: str, folded: Folded) -> None:
        """Store a tally; a store that cannot be written costs time, not the answer."""
        seq, body = folded.tally.seq, msgspec.json.encode(folded)
        self._bodies.keep(execution_id, seq, body)
        try:
            await self._store.keep_tally(execution_id, VERSION, Snapshot(seq, body))
        except StoreError as error:
            log.debug("a tally was not stored: %s", error)


def _slice(after: int, until: int | None) -> int:
    """Return the number of events to fold next: never beyond the end of a page."""
    size = min(SLICE, PAGE - after % PAGE)
    return size if until is None else max(0, min(size, until - after))
