"""Looking into the logs of this home, while they are written or not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from noetl.adapters.stores.sqlite import SqliteStore
from noetl.engine.events import Event
from noetl.errors import ConfigError
from noetl.home import Home
from noetl.ports import Summary


async def list_executions(home: Home, limit: int) -> list[Summary]:
    """Of all logs, the newest first (ids are in the order of time)."""
    found: list[Summary] = []
    for path in home.logs():
        store = SqliteStore.open(path, readonly=True)
        try:
            found += await store.find(limit=limit)
        finally:
            await store.close()
    return sorted(found, key=lambda each: each.execution_id, reverse=True)[:limit]


async def find_execution(home: Home, wanted: str) -> tuple[Path, Sequence[Event]]:
    """The log that holds it and its events. A prefix that is unique will do."""
    found: list[tuple[Path, str]] = []
    for path in home.logs():
        store = SqliteStore.open(path, readonly=True)
        try:
            found += [(path, name) for name in await store.resolve(wanted)]
        finally:
            await store.close()
    if not wanted or not found:
        message = f"no execution '{wanted}' under {home.folder}"
        raise ConfigError(f"{message}; see noetl list")
    if len(found) > 1:
        some = ", ".join(name for _, name in found[:3])
        raise ConfigError(f"'{wanted}' is not unique: {some}, …")
    path, name = found[0]
    store = SqliteStore.open(path, readonly=True)
    try:
        return path, await store.read(name)
    finally:
        await store.close()
