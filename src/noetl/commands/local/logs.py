"""Read access to the logs of this home, also while another process writes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.stores.sqlite.connection import Holder, find_holder
from noetl.config import Settings, read_plugins
from noetl.engine.events import Event
from noetl.engine.execution_document import interruption
from noetl.errors import ConfigError, StoreError
from noetl.local.control_socket import ask
from noetl.local.home import Home
from noetl.ports import LocalStore, Summary
from noetl.service.executions.filters import Filter, Page, merge_pages
from noetl.service.executions.queries import ExecutionQueries, waiting_document
from noetl.types import JSON
from noetl.wiring.result_stores import make_blobs

OPEN = ("running", "waiting")
"""Statuses of executions that a process runs."""

PAGE = 500
"""Events read at a time: an execution may have millions of them."""


RETRY_DELAYS_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Seconds between attempts to open a log that another command holds. Such a command
takes no requests and finishes within a moment."""

Pause = Callable[[float], Awaitable[None]]


class Place(msgspec.Struct, frozen=True):
    """The log that holds an execution."""

    log: Path
    execution_id: str


@asynccontextmanager
async def reading(path: Path) -> AsyncIterator[LocalStore]:
    store = SqliteStore.open(path, readonly=True)
    try:
        yield store
    finally:
        await store.close()


async def find_listener(path: Path, pause: Pause = asyncio.sleep) -> Holder | None:
    """Find the process that takes requests for the log; None if the log is free."""
    for seconds in RETRY_DELAYS_S:
        holder = find_holder(path)
        if holder is None or holder.socket is not None:
            return holder
        await pause(seconds)
    return find_holder(path)


async def open_alone(path: Path, pause: Pause = asyncio.sleep) -> LocalStore:
    """Open the log for writing. Raises ``StoreError`` if it stays locked."""
    for seconds in RETRY_DELAYS_S:
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


async def each_log(home: Home) -> AsyncIterator[LocalStore]:
    """Open every log of the home for reading."""
    for path in home.logs():
        try:
            async with reading(path) as store:
                yield store
        except StoreError as error:
            if error.kind != "store.missing":  # another process is creating it
                raise


async def list_executions(
    home: Home, limit: int, cursor: str | None = None
) -> list[Summary]:
    """List executions of all logs, the newest first (ids are in the order of time).

    ``cursor`` is the last id of the previous page.
    """
    found: list[Summary] = []
    async for store in each_log(home):
        found += await store.find(before=cursor, limit=limit)
    return sorted(found, key=lambda each: each.execution_id, reverse=True)[:limit]


async def find_executions(
    home: Home,
    settings: Settings,
    limit: int,
    wanted: Filter,
    cursor: str | None = None,
) -> Page:
    """List executions of all logs that match, as the API does."""
    blobs = make_blobs(home, read_plugins(settings), settings)
    pages = [
        await ExecutionQueries(store, blobs).find(wanted, limit=limit, cursor=cursor)
        async for store in each_log(home)
    ]
    return merge_pages(pages, limit)


async def list_waiting(
    home: Home,
    settings: Settings,
    limit: int,
    wanted: Filter,
    cursor: str | None = None,
) -> tuple[list[dict[str, JSON]], str | None]:
    """List waiting executions with their waits; also return the next cursor."""
    found: list[dict[str, JSON]] = []
    following: list[str] = []
    blobs = make_blobs(home, read_plugins(settings), settings)
    async for store in each_log(home):
        page, waits = await ExecutionQueries(store, blobs).find_waiting(
            wanted, limit=limit, cursor=cursor
        )
        found += [waiting_document(each, waits) for each in page.executions]
        following += [page.cursor] if page.cursor is not None else []
    found.sort(key=lambda line: line["execution_id"], reverse=True)
    if len(found) > limit:
        following.append(found[limit - 1]["execution_id"])
    end = max(following, default=None)
    return [line for line in found if end is None or line["execution_id"] >= end], end


async def find_execution(home: Home, wanted: str) -> Place:
    """Find an execution by its id, a unique beginning or end of it, or ``last``.

    ``last`` is the newest execution without a parent. Raises ``ConfigError``.
    """
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
    """Read the whole log in order, a page at a time."""
    async with reading(place.log) as store:
        after = 0
        while page := await store.read(place.execution_id, after=after, limit=size):
            yield page
            after = page[-1].seq


async def find_interrupted(
    home: Home, found: Sequence[Summary]
) -> dict[str, dict[str, JSON]]:
    """Return, by their ids, the unfinished executions whose process is gone: since
    when, and the command that continues each."""
    open_ones = [each.execution_id for each in found if each.status in OPEN]
    gone: dict[str, dict[str, JSON]] = {}
    if not open_ones:
        return gone
    async for store in each_log(home):
        holder = await find_listener(store.path)
        for execution_id in open_ones:
            if not await store.length(execution_id):
                continue
            if not await _is_run(holder, execution_id):
                gone[execution_id] = await _interruption(store, execution_id)
    return gone


async def _is_run(holder: Holder | None, execution_id: str) -> bool:
    """Return whether the process that writes the log runs the execution; if it takes
    no requests, it may."""
    if holder is None or holder.socket is None:
        return holder is not None
    try:
        request = {"do": "look", "execution_id": execution_id}
        await ask(Path(holder.socket), request)
    except (ConfigError, OSError):
        return False
    return True


async def _interruption(store: LocalStore, execution_id: str) -> dict[str, JSON]:
    """Describe the interruption; a called execution is continued by its root."""
    [last] = await store.read(
        execution_id, after=await store.length(execution_id) - 1, limit=1
    )
    root = await store.summary(execution_id)
    while root.parent_id is not None and await store.length(root.parent_id):
        root = await store.summary(root.parent_id)
    return interruption(root.execution_id, last.timestamp)


async def read_summary(place: Place) -> Summary:
    """Read the line of an execution in a listing."""
    async with reading(place.log) as store:
        return await store.summary(place.execution_id)
