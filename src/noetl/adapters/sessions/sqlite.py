"""Sessions of an embedded server in a SQLite file, with the semantics of NATS."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from noetl.access.sessions import MAX_VERSIONS, Session, decode, encode
from noetl.adapters.sql_database import Database
from noetl.adapters.sql_files import read_queries
from noetl.errors import AccessError, StoreError
from noetl.ports.access import StoredSession, Version

_SQL = read_queries(__package__)


class SqliteSessions:
    """Stores each version by one statement, which is a transaction."""

    def __init__(self, file: Database) -> None:
        self._file = file

    async def create(self, key: str, session: Session, *, now: float) -> StoredSession:
        async with self._asking() as file:
            await file.fetch(_SQL["clean"], now)
            values = (key, session.user_id, session.expires_at, encode(session))
            ((revision,),) = await file.fetch(_SQL["create"], *values)
            return StoredSession(key, revision, session)

    async def get(self, key: str, *, now: float) -> StoredSession | None:
        async with self._asking() as file:
            for revision, value in await file.fetch(_SQL["get"], key):
                if value is not None and (session := decode(value)).is_valid(now):
                    return StoredSession(key, revision, session)
            return None

    async def touch(
        self, kept: StoredSession, session: Session, *, now: float
    ) -> StoredSession | None:
        async with self._asking() as file:
            values = (kept.key, session.user_id, session.expires_at, encode(session))
            rows = await file.fetch(_SQL["touch"], *values, kept.revision)
            await file.fetch(_SQL["forget"], kept.key, MAX_VERSIONS)
            return StoredSession(kept.key, rows[0][0], session) if rows else None

    async def invalidate(self, key: str) -> None:
        async with self._asking() as file:
            await file.fetch(_SQL["invalidate"], key)

    async def invalidate_user(self, user_id: str) -> int:
        async with self._asking() as file:
            return len(await file.fetch(_SQL["invalidate_user"], user_id))

    async def list_by_user(
        self, user_id: str, *, now: float
    ) -> Sequence[StoredSession]:
        async with self._asking() as file:
            rows = await file.fetch(_SQL["list_by_user"], user_id)
        found = [
            StoredSession(key, revision, decode(value)) for key, revision, value in rows
        ]
        valid = [kept for kept in found if kept.session.is_valid(now)]
        return sorted(valid, key=lambda kept: (kept.session.created_at, kept.key))

    async def history(self, key: str) -> Sequence[Version]:
        async with self._asking() as file:
            rows = await file.fetch(_SQL["history"], key, MAX_VERSIONS)
        return [Version(revision, decode(v) if v else None) for revision, v in rows]

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[Database]:
        try:
            yield self._file
        except StoreError as error:
            message = f"sessions cannot be checked: {error}; API tokens still work"
            raise AccessError("session.store_down", message, 401) from error
