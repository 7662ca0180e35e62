"""Looking into the logs of this home, while they are written or not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.stores.sqlite.lock import Holder, find_holder
from noetl.config import read_plugins
from noetl.engine.events import Event
from noetl.engine.state import ExecutionStatus
from noetl.errors import ConfigError, StoreError
from noetl.home import Home
from noetl.ports import Summary
from noetl.results import make_blobs
from noetl.service.looking import Filter, Looking, waiting_document
from noetl.types import JSON

PAGE = 500
"""Events read at once: an execution may have millions of them."""


PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Seconds between looks at a log that another command has, which takes no orders: it
changes something, and is over in a moment."""

Pause = Callable[[float], Awaitable[None]]


class Place(msgspec.Struct, frozen=True):
    """Which log holds an execution."""

    log: Path
    execution_id: str


@asynccontextmanager
async def reading(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore.open(path, readonly=True)
    try:
        yield store
    finally:
        await store.close()


async def find_listener(path: Path, pause: Pause = asyncio.sleep) -> Holder | None:
    """Who takes orders for what is in the log; None if nobody has it."""
    for seconds in PAUSES:
        holder = find_holder(path)
        if holder is None or holder.socket is not None:
            return holder
        await pause(seconds)
    return find_holder(path)


async def open_alone(path: Path, pause: Pause = asyncio.sleep) -> SqliteStore:
    """The log, to be written. Raises ``StoreError`` if another has it for long."""
    for seconds in PAUSES:
        try:
            return SqliteStore.open(path)
        except StoreError as error:
            if error.kind != "store.locked":
                raise
            holder = find_holder(path)
            if holder is not None and holder.socket is not None:
                raise
        await pause(seconds)
    return SqliteStore.open(path)


async def each_log(home: Home) -> AsyncIterator[SqliteStore]:
    """Every log of the home, opened for reading."""
    for path in home.logs():
        try:
            async with reading(path) as store:
                yield store
        except StoreError as error:
            if error.kind != "store.missing":  # somebody is making it just now
                raise


async def list_executions(
    home: Home,
    limit: int,
    status: ExecutionStatus | None = None,
    cursor: str | None = None,
) -> list[Summary]:
    """Of all logs, the newest first (ids are in the order of time).

    ``cursor`` is the last id of the page before.
    """
    found: list[Summary] = []
    async for store in each_log(home):
        found += await store.find(status=status, before=cursor, limit=limit)
    return sorted(found, key=lambda each: each.execution_id, reverse=True)[:limit]


async def list_waiting(
    home: Home, limit: int, cursor: str | None = None
) -> tuple[list[dict[str, JSON]], str | None]:
    """Lines of those that wait for something, with what it is, and the next cursor."""
    found: list[dict[str, JSON]] = []
    following: list[str] = []
    blobs = make_blobs(home, read_plugins())
    async for store in each_log(home):
        page, waits = await Looking(store, blobs).find_waiting(
            Filter(), limit=limit, cursor=cursor
        )
        found += [waiting_document(each, waits) for each in page.executions]
        following += [page.cursor] if page.cursor is not None else []
    found.sort(key=lambda line: line["execution_id"], reverse=True)
    if len(found) > limit:
        following.append(found[limit - 1]["execution_id"])
    end = max(following, default=None)
    return [line for line in found if end is None or line["execution_id"] >= end], end


async def find_execution(home: Home, wanted: str) -> Place:
    """Where it is: by its id, a unique prefix of it, or as ``last``, the newest that
    nobody called. Raises ``ConfigError``."""
    if wanted == "last":
        wanted = await _newest(home)
    found: list[Place] = []
    async for store in each_log(home):
        found += [Place(store.path, name) for name in await store.resolve(wanted)]
    if not wanted or not found:
        message = f"no execution '{wanted}' under {home.folder}"
        raise ConfigError(f"{message}; see noetl list")
    if len(found) > 1:
        some = ", ".join(place.execution_id for place in found[:3])
        raise ConfigError(f"'{wanted}' is not unique: {some}, …")
    return found[0]


async def _newest(home: Home) -> str:
    cursor = None
    while page := await list_executions(home, PAGE, cursor=cursor):
        for each in page:
            if each.parent_id is None:
                return each.execution_id
        cursor = page[-1].execution_id
    raise ConfigError(f"there is no execution under {home.folder} yet")


async def read_pages(
    place: Place, *, size: int = PAGE
) -> AsyncIterator[Sequence[Event]]:
    """The whole log in order, a page at a time; none is kept here."""
    async with reading(place.log) as store:
        after = 0
        while page := await store.read(place.execution_id, after=after, limit=size):
            yield page
            after = page[-1].seq


async def read_summary(place: Place) -> Summary:
    """The line of an execution in a listing."""
    async with reading(place.log) as store:
        return await store.summary(place.execution_id)
