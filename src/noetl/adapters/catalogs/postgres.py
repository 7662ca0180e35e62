"""Catalog in PostgreSQL, shared by any number of servers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from noetl.adapters.catalogs.files import next_number, rank, same_or_taken
from noetl.adapters.postgres import Postgres
from noetl.adapters.sql_files import read_migrations
from noetl.ports import Registered

_OF_PATH = "SELECT body FROM playbook WHERE path = $1 "
_NEWEST = "ORDER BY rank DESC, number DESC "
_LATEST = """
SELECT DISTINCT ON (path) body FROM playbook
WHERE path > $1 AND starts_with(path, $2) ORDER BY path, rank DESC, number DESC LIMIT $3
"""
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))"
_INSERT = (
    "INSERT INTO playbook (playbook_id, path, version, rank, body) "
    "VALUES ($1, $2, $3, $4, $5)"
)


K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SharedReads(Generic[K, T]):
    """Lets callers who ask while a read of their key is running share the next one.

    No caller gets what was read before it asked. A read that fails, fails for all who
    share it.
    """

    def __init__(self, read: Callable[[K], Awaitable[T]]) -> None:
        self._read = read
        self._waiting: dict[K, list[asyncio.Future[T]]] = {}
        self._next: set[asyncio.Task[None]] = set()

    async def get(self, key: K) -> T:
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = []
            try:
                return await self._read(key)
            finally:
                self._begin_next(key)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        waiting.append(future)
        return await future

    def _begin_next(self, key: K) -> None:
        """Read for those who have asked since, apart from the caller who has its
        answer."""
        sharing = self._waiting.pop(key)
        if sharing:
            self._waiting[key] = []
            task = asyncio.create_task(self._read_for(key, sharing))
            self._next.add(task)
            task.add_done_callback(self._next.discard)

    async def _read_for(self, key: K, sharing: list[asyncio.Future[T]]) -> None:
        try:
            found = await self._read(key)
        except Exception as error:
            for future in sharing:
                if not future.done():
                    future.set_exception(error)
        except asyncio.CancelledError:
            for future in sharing:
                future.cancel()
            raise
        else:
            for future in sharing:
                if not future.done():
                    future.set_result(found)
        finally:
            self._begin_next(key)


class PostgresCatalogRows:
    """Registrations of the same path are serialized by an advisory lock."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._finds = SharedReads(self._find)

    @classmethod
    async def open(cls, postgres: Postgres) -> PostgresCatalogRows:
        """Bring the tables up to date. Raises ``StoreError``.

        The caller closes ``postgres``.
        """
        await postgres.migrate("catalog", read_migrations(__package__))
        return cls(postgres)

    async def add(self, playbook: Registered) -> Registered:
        async def work(connection: Any) -> Registered:
            async with connection.transaction():
                await connection.execute(_LOCK, playbook.path)
                return await _added(connection, playbook)

        return await self._postgres.run(work)

    async def get(self, playbook_id: str) -> Registered | None:
        return await self._one(
            "SELECT body FROM playbook WHERE playbook_id = $1", playbook_id
        )

    async def find(self, path: str, version: str | None) -> Registered | None:
        return await self._finds.get((path, version))

    async def _find(self, key: tuple[str, str | None]) -> Registered | None:
        path, version = key
        if version is None:
            return await self._one(f"{_OF_PATH} {_NEWEST} LIMIT 1", path)
        return await self._one(f"{_OF_PATH} AND version = $2", path, version)

    async def versions(self, path: str, *, limit: int = 1_000) -> Sequence[Registered]:
        return await self._all(f"{_OF_PATH} {_NEWEST} LIMIT $2", path, limit)

    async def latest(
        self, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> Sequence[Registered]:
        return await self._all(_LATEST, after, prefix, limit)

    async def _one(self, sql: str, *given: object) -> Registered | None:
        found = await self._all(sql, *given)
        return found[0] if found else None

    async def _all(self, sql: str, *given: object) -> list[Registered]:
        return await self._postgres.run(lambda c: _rows(c, sql, *given))


async def _rows(connection: Any, sql: str, *given: object) -> list[Registered]:
    rows = await connection.fetch(sql, *given)
    return [msgspec.json.decode(row[0], type=Registered) for row in rows]


async def _added(connection: Any, playbook: Registered) -> Registered:
    path, version = playbook.path, playbook.version
    if version:
        known = await _rows(connection, f"{_OF_PATH} AND version = $2", path, version)
    else:
        known = await _rows(connection, f"{_OF_PATH} {_NEWEST} LIMIT 1", path)
        known = [each for each in known if each.sha256 == playbook.sha256]
    if known:
        return same_or_taken(known[0], playbook)
    if not version:
        sql = "SELECT version FROM playbook WHERE path = $1"
        version = next_number(row[0] for row in await connection.fetch(sql, path))
        playbook = msgspec.structs.replace(playbook, version=version)
    body = msgspec.json.encode(playbook).decode()
    row = (playbook.playbook_id, path, version, rank(version), body)
    await connection.execute(_INSERT, *row)
    return playbook
