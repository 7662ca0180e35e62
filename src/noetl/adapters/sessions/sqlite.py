"""Sessions in a SQLite file: the embedded server's, with NATS' semantics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from noetl.access.ports import Kept, Version
from noetl.access.sessions import HISTORY, Session, decode, encode
from noetl.adapters.accounts.database import Database
from noetl.adapters.scripts import read_queries
from noetl.errors import AccessError, StoreError

_SQL = read_queries(__package__)


class SqliteSessions:
    """Each statement is a transaction, so a version is stored whole or not at all."""

    def __init__(self, file: Database) -> None:
        self._file = file

    async def create(self, key: str, session: Session, *, now: float) -> Kept:
        async with self._asking() as file:
            await file.fetch(_SQL["clean"], now)
            values = (key, session.user_id, session.expires_at, encode(session))
            ((revision,),) = await file.fetch(_SQL["create"], *values)
            return Kept(key, revision, session)

    async def get(self, key: str, *, now: float) -> Kept | None:
        async with self._asking() as file:
            for revision, value in await file.fetch(_SQL["get"], key):
                if value is not None and (session := decode(value)).is_valid(now):
                    return Kept(key, revision, session)
            return None

    async def touch(self, kept: Kept, session: Session, *, now: float) -> Kept | None:
        async with self._asking() as file:
            values = (kept.key, session.user_id, session.expires_at, encode(session))
            rows = await file.fetch(_SQL["touch"], *values, kept.revision)
            await file.fetch(_SQL["forget"], kept.key, HISTORY)
            return Kept(kept.key, rows[0][0], session) if rows else None

    async def invalidate(self, key: str) -> None:
        async with self._asking() as file:
            await file.fetch(_SQL["invalidate"], key)

    async def invalidate_user(self, user_id: str) -> int:
        async with self._asking() as file:
            return len(await file.fetch(_SQL["invalidate_user"], user_id))

    async def list_by_user(self, user_id: str, *, now: float) -> Sequence[Kept]:
        async with self._asking() as file:
            rows = await file.fetch(_SQL["list_by_user"], user_id)
        found = [Kept(key, revision, decode(value)) for key, revision, value in rows]
        valid = [kept for kept in found if kept.session.is_valid(now)]
        return sorted(valid, key=lambda kept: (kept.session.created_at, kept.key))

    async def history(self, key: str) -> Sequence[Version]:
        async with self._asking() as file:
            rows = await file.fetch(_SQL["history"], key, HISTORY)
        return [Version(revision, decode(v) if v else None) for revision, v in rows]

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[Database]:
        try:
            yield self._file
        except StoreError as error:
            message = f"sessions cannot be checked: {error}; API tokens still work"
            raise AccessError("session.store_down", message, 401) from error
