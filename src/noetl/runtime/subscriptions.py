"""Subscriptions to the events of an execution: woken after each commit."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager

from noetl.engine.events import Event
from noetl.errors import StoreError
from noetl.ports import ExecutionHistory

EVENTS_PER_PAGE = 64
"""Events that a subscriber is given at once: a slow one holds no more than these."""

POLL_OTHERS_EVERY_S = 1.0
"""Seconds between reads of a shared store for the events of other servers."""

FINISHED, LAST = "workflow.finished", "playbook.processed"
QUARANTINED = "quarantined"


class Subscriptions:
    """Wakes subscribers, which read new events from the store.

    A subscriber has no queue that could overflow: it only knows its position.
    """

    def __init__(self, store: ExecutionHistory, *, patience: float = 15.0) -> None:
        self._store = store
        self._patience = patience
        self._events: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._ends: defaultdict[str, set[asyncio.Future[Event]]] = defaultdict(set)
        self._closed = False

    def __len__(self) -> int:
        return sum(map(len, self._events.values()))

    def note(self, events: Sequence[Event]) -> None:
        """Wake the subscribers of a committed batch."""
        execution_id = events[0].execution_id
        for woken in self._events.get(execution_id, ()):
            woken.set()
        if events[-1].name == LAST and execution_id in self._ends:
            finished = next((e for e in reversed(events) if e.name == FINISHED), None)
            for end in self._ends[execution_id]:
                if finished is not None and not end.done():
                    end.set_result(finished)

    def wake(self, execution_id: str) -> None:
        """Wake subscribers about a change that has no event, such as quarantine."""
        for woken in self._events.get(execution_id, ()):
            woken.set()

    async def end(self, execution_id: str, seconds: float) -> Event | None:
        """Wait for the ``workflow.finished`` of an execution; None if it does not come
        in time, or another server commits it."""
        end: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        self._ends[execution_id].add(end)
        try:
            while seconds > 0:
                turn = (
                    min(seconds, POLL_OTHERS_EVERY_S) if self._store.shared else seconds
                )
                await asyncio.wait({end}, timeout=turn)
                if end.done():
                    return None if end.cancelled() else end.result()
                seconds -= turn
                summary = await self._store.summary(execution_id)
                if summary.finished_at is not None or summary.status == QUARANTINED:
                    return None
            return None
        finally:
            self._ends[execution_id].discard(end)
            if not self._ends[execution_id]:
                del self._ends[execution_id]

    def close(self) -> None:
        """End all subscriptions: the server stops."""
        self._closed = True
        for ends in self._ends.values():
            for end in ends:
                end.cancel()
        for events_of in self._events.values():
            for event in events_of:
                event.set()

    async def follow(
        self, execution_id: str, after: int
    ) -> AsyncIterator[Sequence[Event]]:
        """Yield the events after a position, until the last; an empty page is a sign of
        life.

        The events of other servers are found by polling. A quarantined execution ends
        with the last event that can be read.
        """
        patience = POLL_OTHERS_EVERY_S if self._store.shared else self._patience
        caught_up, silent = False, True
        with self._event(execution_id) as event:
            while not self._closed:
                event.clear()
                try:
                    page = await self._store.read(
                        execution_id, after=after, limit=EVENTS_PER_PAGE
                    )
                except StoreError:
                    if await self._is_quarantined(execution_id):
                        return
                    raise
                if page:
                    yield page
                    after = page[-1].seq
                    if page[-1].name == LAST:
                        return
                    silent = not caught_up
                    continue
                if silent and await self._is_quarantined(execution_id):
                    return
                caught_up = silent = True
                try:
                    async with asyncio.timeout(patience):
                        await event.wait()
                except TimeoutError:
                    yield ()

    async def _is_quarantined(self, execution_id: str) -> bool:
        summary = await self._store.summary(execution_id)
        return summary.status == QUARANTINED

    @contextmanager
    def _event(self, execution_id: str) -> Iterator[asyncio.Event]:
        event = asyncio.Event()
        self._events[execution_id].add(event)
        try:
            yield event
        finally:
            self._events[execution_id].discard(event)
            if not self._events[execution_id]:
                del self._events[execution_id]
