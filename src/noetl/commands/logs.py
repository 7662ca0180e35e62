"""Looking into the logs of this home, while they are written or not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from noetl.adapters.stores.sqlite import SqliteStore
from noetl.engine.events import Event
from noetl.errors import ConfigError
from noetl.home import Home
from noetl.ports import Summary


async def list_executions(home: Home, limit: int) -> list[Summary]:
    """Of all logs, the newest first."""
    found: list[Summary] = []
    for path in home.logs():
        async with reading(path) as store:
            found += await store.find(limit=limit)
    return sorted(found, key=lambda each: each.started_at, reverse=True)[:limit]


async def locate(home: Home, wanted: str) -> tuple[Path, Summary]:
    """The log that holds an execution, and its line; a unique prefix will do."""
    found: list[tuple[Path, str]] = []
    for path in home.logs():
        async with reading(path) as store:
            found += [(path, name) for name in await store.resolve(wanted)]
    if not wanted or not found:
        message = f"no execution '{wanted}' under {home.folder}"
        raise ConfigError(f"{message}; see noetl list")
    if len(found) > 1:
        some = ", ".join(name for _, name in found[:3])
        raise ConfigError(f"'{wanted}' is not unique: {some}, …")
    path, name = found[0]
    async with reading(path) as store:
        return path, await store.summary(name)


async def find_execution(home: Home, wanted: str) -> tuple[Path, Sequence[Event]]:
    """The log that holds it and its events."""
    path, summary = await locate(home, wanted)
    async with reading(path) as store:
        return path, await store.read(summary.execution_id)


@asynccontextmanager
async def reading(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore.open(path, readonly=True)
    try:
        yield store
    finally:
        await store.close()
