"""Watchers are woken by commits, and hold nothing but their position."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from noetl.engine.events import Event
from noetl.runtime import streams
from noetl.runtime.streams import Streams

HUNG = 30.0
NEVER = 3_600.0


class Log:
    """A store of one log, which says how much was read at once."""

    shared = False

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.limits: set[int | None] = set()

    def add(self, name: str) -> Sequence[Event]:
        event = Event(
            event_id="x",
            execution_id="x",
            seq=len(self.events) + 1,
            timestamp="",
            source="server",
            name=name,
            entity_type="workflow",
            parent_id=None,
            entity_id="x",
            status="success",
        )
        self.events.append(event)
        return [event]

    async def read(
        self, execution_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Event]:
        self.limits.add(limit)
        end = None if limit is None else after + limit
        return self.events[after:end] if execution_id == "x" else []


async def collect(watched: Streams, after: int = 0) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(HUNG):
        async for page in watched.follow("x", after):
            found += [event.seq for event in page]
    return found


async def test_a_commit_wakes_who_watches_it() -> None:
    log = Log()
    watched = Streams(log, patience=NEVER)  # type: ignore[arg-type]
    watching = [asyncio.create_task(collect(watched, after)) for after in (0, 1, 0)]
    for name in ("a", "b", streams.LAST):
        await asyncio.sleep(0)
        watched.note(log.add(name))

    assert await asyncio.gather(*watching) == [[1, 2, 3], [2, 3], [1, 2, 3]]
    assert len(watched) == 0
    assert log.limits == {streams.PAGE}


async def test_the_end_of_all_streams() -> None:
    watched = Streams(Log(), patience=NEVER)  # type: ignore[arg-type]
    watching = asyncio.create_task(collect(watched))
    await asyncio.sleep(0)

    watched.close()

    assert await watching == []
