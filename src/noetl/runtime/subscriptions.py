"""Who watches executions: woken after each commit, never told before it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager

from noetl.engine.events import Event
from noetl.errors import StoreError
from noetl.ports import Store

PAGE = 64
"""Events that a watcher is given at once: a slow one keeps no more than these."""

OTHERS = 1.0
"""Seconds after which somebody looks what other servers wrote: nobody rings for it."""

FINISHED, LAST = "workflow.finished", "playbook.processed"
ASIDE = "quarantined"


class Streams:
    """Bells of watchers. What is new is read from the store, by whoever was woken.

    So a watcher has no queue that could overflow: it only knows where it stands.
    """

    def __init__(self, store: Store, *, patience: float = 15.0) -> None:
        self._store = store
        self._patience = patience
        self._bells: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._ends: defaultdict[str, set[asyncio.Future[Event]]] = defaultdict(set)
        self._closed = False

    def __len__(self) -> int:
        return sum(map(len, self._bells.values()))

    def note(self, events: Sequence[Event]) -> None:
        """A batch was committed."""
        execution_id = events[0].execution_id
        for bell in self._bells.get(execution_id, ()):
            bell.set()
        if events[-1].name == LAST and execution_id in self._ends:
            finished = next((e for e in reversed(events) if e.name == FINISHED), None)
            for end in self._ends[execution_id]:
                if finished is not None and not end.done():
                    end.set_result(finished)

    def wake(self, execution_id: str) -> None:
        """Something became of it that is no event."""
        for bell in self._bells.get(execution_id, ()):
            bell.set()

    async def end(self, execution_id: str, seconds: float) -> Event | None:
        """The ``workflow.finished`` of an execution that is under way in this process;
        None if it has not come in time, or came to another server."""
        end: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        self._ends[execution_id].add(end)
        try:
            while seconds > 0:
                turn = min(seconds, OTHERS) if self._store.shared else seconds
                await asyncio.wait({end}, timeout=turn)
                if end.done():
                    return None if end.cancelled() else end.result()
                seconds -= turn
                summary = await self._store.summary(execution_id)
                if summary.finished_at is not None or summary.status == ASIDE:
                    return None
            return None
        finally:
            self._ends[execution_id].discard(end)
            if not self._ends[execution_id]:
                del self._ends[execution_id]

    def close(self) -> None:
        """End all of them: the server stops."""
        self._closed = True
        for ends in self._ends.values():
            for end in ends:
                end.cancel()
        for bells in self._bells.values():
            for bell in bells:
                bell.set()

    async def follow(
        self, execution_id: str, after: int
    ) -> AsyncIterator[Sequence[Event]]:
        """The events after a position, until the last; an empty page says: still here.

        Other servers may write to a shared store, and nobody rings for them. Of what
        is set aside there are no more: it ends where that can be read to.
        """
        patience = OTHERS if self._store.shared else self._patience
        caught_up, silent = False, True
        with self._bell(execution_id) as bell:
            while not self._closed:
                bell.clear()
                try:
                    page = await self._store.read(execution_id, after=after, limit=PAGE)
                except StoreError:
                    if await self._is_aside(execution_id):
                        return
                    raise
                if page:
                    yield page
                    after = page[-1].seq
                    if page[-1].name == LAST:
                        return
                    silent = not caught_up
                    continue
                if silent and await self._is_aside(execution_id):
                    return
                caught_up = silent = True
                try:
                    async with asyncio.timeout(patience):
                        await bell.wait()
                except TimeoutError:
                    yield ()

    async def _is_aside(self, execution_id: str) -> bool:
        summary = await self._store.summary(execution_id)
        return summary.status == ASIDE

    @contextmanager
    def _bell(self, execution_id: str) -> Iterator[asyncio.Event]:
        bell = asyncio.Event()
        self._bells[execution_id].add(bell)
        try:
            yield bell
        finally:
            self._bells[execution_id].discard(bell)
            if not self._bells[execution_id]:
                del self._bells[execution_id]
