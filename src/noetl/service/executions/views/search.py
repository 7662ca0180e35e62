"""Pages of events that have some ids or contain a text, forwards or backwards."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from noetl.dialects.views.formal import fits
from noetl.engine.event_codec import traced
from noetl.engine.events import Event, ExecutionRequested
from noetl.ports import LogReader

MAX_EVENTS = 20_000
"""Events that one request looks at; its cursor continues after them."""
MAX_BYTES = 4 * 1024 * 1024
"""Bytes after which a page ends."""
BATCH = 200
"""Events that are read and compared at once."""


class Wanted(msgspec.Struct, frozen=True):
    """What events must have: ids by their names, and a text anywhere in their JSON,
    compared without regard to case."""

    ids: Mapping[str, str] = {}
    text: str | None = None

    def needles(self) -> tuple[str, ...]:
        """Return the text as it is, and as it is inside of a string of JSON."""
        if not self.text:
            return ()
        inside = msgspec.json.encode(self.text).decode()[1:-1]
        return self.text.casefold(), inside.casefold()


class EventSearch:
    """Reads a bounded part of a log for each page."""

    def __init__(self, log: LogReader) -> None:
        self._log = log

    async def page(
        self,
        execution_id: str,
        wanted: Wanted,
        *,
        after: int,
        before: int | None,
        limit: int,
    ) -> tuple[list[bytes], int | None]:
        """Return events as lines of JSON, and where the next page begins.

        With ``before`` the events before it, the latest first, down to ``after``; the
        cursor is then the next value of ``before``. A page may be empty and have a
        cursor.
        """
        trace = await self._trace(execution_id)
        needles = wanted.needles()
        found: list[bytes] = []
        seen = size = at = 0
        backwards = before is not None
        batches = (
            self._backwards(execution_id, after, before)
            if before is not None
            else self._forwards(execution_id, after)
        )
        async for events in batches:
            for event in events:
                seen, at = seen + 1, event.seq
                body = _matching(event, wanted.ids, needles)
                if body is not None:
                    line = traced(body, trace)
                    found.append(line)
                    size += len(line)
                if len(found) == limit or size >= MAX_BYTES or seen == MAX_EVENTS:
                    is_last = backwards and at == after + 1
                    return found, None if is_last else at
        return found, None

    async def _forwards(
        self, execution_id: str, after: int
    ) -> AsyncIterator[Sequence[Event]]:
        while True:
            events = await self._log.read(execution_id, after=after, limit=BATCH)
            yield events
            if len(events) < BATCH:
                return
            after = events[-1].seq

    async def _backwards(
        self, execution_id: str, after: int, before: int
    ) -> AsyncIterator[Sequence[Event]]:
        before = min(before, await self._log.length(execution_id) + 1)
        while before > after + 1:
            first = max(after, before - 1 - BATCH)
            events = await self._log.read(
                execution_id, after=first, limit=before - 1 - first
            )
            yield events[::-1]
            before = first + 1

    async def _trace(self, execution_id: str) -> str:
        for first in await self._log.read(execution_id, limit=1):
            asked: ExecutionRequested = first.payload
            return asked["trace_id"]
        return ""


def _matching(
    event: Event, ids: Mapping[str, str], needles: Sequence[str]
) -> bytes | None:
    """Return the encoded event if it has the ids and contains the text."""
    if ids and not fits(event, {"name": event.name}, ids):
        return None
    body = msgspec.json.encode(event)
    if needles:
        line = body.decode().casefold()
        if not any(needle in line for needle in needles):
            return None
    return body
