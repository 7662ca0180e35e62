"""Watchers are woken by commits, and hold nothing but their position."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from noetl.engine.events import Event
from noetl.engine.state import ExecutionStatus
from noetl.errors import StoreError
from noetl.ports import Summary
from noetl.runtime import subscriptions
from noetl.runtime.subscriptions import Subscriptions

HUNG = 30.0
NEVER = 3_600.0


class Log:
    """A store of one log, which says how much was read at once."""

    shared = False

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.limits: set[int | None] = set()
        self.status: ExecutionStatus = "running"
        self.broken = False

    async def summary(self, execution_id: str) -> Summary:
        return Summary(execution_id, self.status, {}, "")

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
        if self.broken:
            raise StoreError("an event cannot be decoded", "store.corrupt")
        self.limits.add(limit)
        end = None if limit is None else after + limit
        return self.events[after:end] if execution_id == "x" else []


async def collect(watched: Subscriptions, after: int = 0) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(HUNG):
        async for page in watched.follow("x", after):
            found += [event.seq for event in page]
    return found


async def test_a_commit_wakes_who_watches_it() -> None:
    log = Log()
    watched = Subscriptions(log, patience=NEVER)  # type: ignore[arg-type]
    watching = [asyncio.create_task(collect(watched, after)) for after in (0, 1, 0)]
    for name in ("a", "b", subscriptions.LAST):
        await asyncio.sleep(0)
        watched.note(log.add(name))

    assert await asyncio.gather(*watching) == [[1, 2, 3], [2, 3], [1, 2, 3]]
    assert len(watched) == 0
    assert log.limits == {subscriptions.EVENTS_PER_PAGE}


async def test_the_end_of_all_streams() -> None:
    watched = Subscriptions(Log(), patience=NEVER)  # type: ignore[arg-type]
    watching = asyncio.create_task(collect(watched))
    await asyncio.sleep(0)

    watched.close()

    assert await watching == []


@pytest.mark.spec("S-62")
async def test_a_stream_ends_with_what_is_set_aside() -> None:
    log = Log()
    watched = Subscriptions(log, patience=NEVER)  # type: ignore[arg-type]
    log.add("a")
    watching = asyncio.create_task(collect(watched))
    for _ in range(5):  # until it has seen that one
        await asyncio.sleep(0)

    log.status = "quarantined"
    watched.wake("x")

    assert await watching == [1]
    assert await collect(watched) == [1], "also if it was before"


@pytest.mark.spec("S-62")
async def test_a_log_that_cannot_be_read_ends_a_stream_if_it_is_set_aside() -> None:
    log = Log()
    watched = Subscriptions(log, patience=NEVER)  # type: ignore[arg-type]
    log.broken = True
    with pytest.raises(StoreError, match="decoded"):
        await collect(watched)

    log.status = "quarantined"

    assert await collect(watched) == []
