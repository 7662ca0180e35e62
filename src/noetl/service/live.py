"""Changes since a page looked: executions and questions, for live streams."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

from noetl.engine.events import Event
from noetl.engine.times import rfc3339
from noetl.errors import StoreError
from noetl.ports import ExecutionIndex, Parked, Summary
from noetl.service.executions.queries import OPEN

MAX_CHANGED = 10_000
"""Executions whose last change is remembered; a reader that is further behind starts
again."""
POLL_S = 1.0
"""Seconds between looks at a shared store for the changes of other servers."""
RECENT_S = 10.0
"""Seconds: the first look takes what began or ended since then for a change."""
MAX_POLLED = 500
"""Executions of each open status, and of the newest ones, that such a look reads."""
ASKING = frozenset({"task.suspended", "task.resumed", "workflow.finished"})
"""Events that may change the inbox."""


class Watched(ExecutionIndex, Protocol):
    """The lines of executions, and those that wait."""

    @property
    def shared(self) -> bool:
        """Whether other processes may write to it."""
        ...

    async def parked(self, *, limit: int) -> Sequence[Parked]:
        """Return open executions that wait, as ``CommandQueue.parked`` does."""
        ...


class LiveFeed:
    """Numbers the changes of executions. A commit costs it a few dictionary entries.

    ``mark`` tells this feed from that of another process: numbers of one mean nothing
    to the other. ``shows`` says whether an execution that was read may still be read.
    """

    def __init__(
        self, store: Watched, shows: Callable[[str], bool] = lambda execution_id: True
    ) -> None:
        self._store = store
        self._shows = shows
        self.mark = secrets.token_hex(4)
        self.at = 0
        self.asked_at = 0
        self._dropped = 0
        self._changed: OrderedDict[str, int] = OrderedDict()
        self._lines: OrderedDict[str, tuple[int, Summary]] = OrderedDict()
        self._readers: set[asyncio.Event] = set()
        self._polling: asyncio.Task[None] | None = None
        self._polled: dict[str, Summary] = {}
        self._parked: Sequence[tuple[str, int]] | None = None
        self.closed = False

    def note(self, events: Sequence[Event]) -> None:
        """Note a committed batch."""
        asks = not ASKING.isdisjoint([event.name for event in events])
        self._touch(events[0].execution_id, asks=asks)

    def _touch(self, execution_id: str, *, asks: bool) -> None:
        self.at += 1
        if asks:
            self.asked_at = self.at
        self._changed[execution_id] = self.at
        self._changed.move_to_end(execution_id)
        if len(self._changed) > MAX_CHANGED:
            _, self._dropped = self._changed.popitem(last=False)
        for reader in self._readers:
            reader.set()

    def knows(self, after: int) -> bool:
        """Return whether all changes after a number are remembered."""
        return self._dropped <= after <= self.at

    def changes(self, after: int, limit: int) -> list[tuple[int, str]]:
        """Return the first changes after a number, each with its own number."""
        found: list[tuple[int, str]] = []
        for execution_id, number in reversed(self._changed.items()):
            if number <= after:
                break
            found.append((number, execution_id))
        return found[::-1][:limit]

    def changed_at(self, execution_id: str) -> int:
        """Return the number of the last change of an execution; 0 if it is unknown."""
        return self._changed.get(execution_id, 0)

    @property
    def shared(self) -> bool:
        """Whether other servers commit without a note here."""
        return self._store.shared

    async def line(self, number: int, execution_id: str) -> Summary | None:
        """Return the line of an execution as of a change, or a later one; None if it
        is gone."""
        kept = self._lines.get(execution_id)
        if kept is not None and kept[0] >= number and self._shows(execution_id):
            return kept[1]
        at = self._changed.get(execution_id, number)
        try:
            summary = await self._store.summary(execution_id)
        except StoreError as error:
            if error.kind == "store.missing":
                return None
            raise
        self._lines[execution_id] = (at, summary)
        self._lines.move_to_end(execution_id)
        while len(self._lines) > MAX_POLLED:
            self._lines.popitem(last=False)
        return summary

    @contextmanager
    def reading(self) -> Iterator[asyncio.Event]:
        """Return an event that is set by each change."""
        reader = asyncio.Event()
        self._readers.add(reader)
        if self._store.shared and self._polling is None:
            self._polling = asyncio.create_task(self._poll())
        try:
            yield reader
        finally:
            self._readers.discard(reader)
            if not self._readers and self._polling is not None:
                self._polling.cancel()
                self._polling = None

    def close(self) -> None:
        """End all streams: the server stops."""
        self.closed = True
        for reader in self._readers:
            reader.set()

    async def _poll(self) -> None:
        """Find the changes of other servers while a stream is open, until cancelled."""
        while True:
            with suppress(StoreError):  # the next look finds them
                await self.look()
            await asyncio.sleep(POLL_S)

    async def look(self) -> None:
        """Note the changes of other servers since the last look."""
        found = {each.execution_id: each for each in await self._newest()}
        begun = bool(self._polled)
        recent = rfc3339(time.time() - RECENT_S)  # a page may have been loaded before
        for name, summary in found.items():
            last = summary.finished_at or summary.started_at
            if self._polled.get(name) != summary and (begun or last >= recent):
                self._touch(name, asks=False)
        for name in self._polled.keys() - found.keys():
            self._touch(name, asks=False)  # it has ended, and is not among the newest
        self._polled = found
        parked = [
            (each.summary.execution_id, each.last_seq)
            for each in await self._store.parked(limit=MAX_POLLED)
        ]
        before, self._parked = self._parked, parked
        if before is not None and parked != before:
            self.at += 1
            self.asked_at = self.at
            for reader in self._readers:
                reader.set()

    async def _newest(self) -> list[Summary]:
        found = [*await self._store.find(limit=MAX_POLLED)]
        for status in OPEN:
            found += await self._store.find(status=status, limit=MAX_POLLED)
        return found
