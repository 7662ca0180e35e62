"""Sessions of PostgreSQL: the silence of the other end, and poolers in between, which
may serve each transaction by another session."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

SILENCE_S = 12
"""Seconds without a sign of life of the other end that end a connection."""
# A backend whose client is gone would keep its locks for hours.
KEEPALIVE = {
    "tcp_keepalives_idle": str(SILENCE_S // 2),
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": str(SILENCE_S // 4),
    "tcp_user_timeout": str(SILENCE_S * 1000),
}
OPTIONS = (
    ("SOL_SOCKET", "SO_KEEPALIVE", 1),
    ("IPPROTO_TCP", "TCP_KEEPIDLE", SILENCE_S // 2),
    ("IPPROTO_TCP", "TCP_KEEPINTVL", 2),
    ("IPPROTO_TCP", "TCP_KEEPCNT", SILENCE_S // 4),
    ("IPPROTO_TCP", "TCP_USER_TIMEOUT", SILENCE_S * 1000),
)

_POOLER = "NP001"
"""SQLSTATE with which our check says that another session than ours answers."""
_READ_ONLY = "NP002"
_CHECK = """DO $$BEGIN
IF pg_backend_pid() <> {pid} THEN
  RAISE EXCEPTION 'a pooler is in between: restart NoETL' USING ERRCODE = '{pooler}';
ELSIF {wants_writes} AND current_setting('transaction_read_only')::boolean THEN
  RAISE EXCEPTION 'this node takes no writes' USING ERRCODE = '{read_only}';
END IF; END$$"""


async def look_at_session(
    connection: Any, settings: Mapping[str, str], *, wants_writes: bool
) -> None:
    """Check a new connection and make its settings, in one round trip.

    A pooler tells a client the number of another process than the one that answers.
    Nothing of this outlives the statement there: it is one transaction, which fails
    with an error that ``is_behind_pooler`` knows.
    """
    check = _CHECK.format(
        pid=connection.get_server_pid(),
        wants_writes=wants_writes,
        pooler=_POOLER,
        read_only=_READ_ONLY,
    )
    try:
        await connection.execute(f"{check}; {_assignments('SET', settings)}")
    except asyncpg.PostgresError as error:
        if error.sqlstate != _READ_ONLY:
            raise
        message = "the node takes no writes"
        raise asyncpg.TargetServerAttributeNotMatched(message) from None


def is_behind_pooler(error: asyncpg.PostgresError) -> bool:
    return bool(error.sqlstate == _POOLER)


class PooledConnection:
    """Connection that relies on nothing but transactions.

    Settings, and the parsed form of a statement, are of the session that serves the
    transaction: each statement outside of a transaction gets one of its own, which
    begins with the settings.
    """

    def __init__(self, connection: Any, settings: Mapping[str, str]) -> None:
        self._connection = connection
        self._settings = _assignments("SET LOCAL", settings)
        self._depth = 0

    async def execute(self, *query: Any, **options: Any) -> Any:
        async with self._own():
            return await self._connection.execute(*query, **options)

    async def executemany(self, *query: Any, **options: Any) -> Any:
        async with self._own():
            return await self._connection.executemany(*query, **options)

    async def fetch(self, *query: Any, **options: Any) -> Any:
        async with self._own():
            return await self._connection.fetch(*query, **options)

    async def fetchrow(self, *query: Any, **options: Any) -> Any:
        async with self._own():
            return await self._connection.fetchrow(*query, **options)

    async def fetchval(self, *query: Any, **options: Any) -> Any:
        async with self._own():
            return await self._connection.fetchval(*query, **options)

    @asynccontextmanager
    async def transaction(
        self, *, isolation: str | None = None, readonly: bool = False
    ) -> AsyncIterator[None]:
        """Begin a transaction or, inside of one, a savepoint."""
        level = f" ISOLATION LEVEL {isolation.replace('_', ' ')}" if isolation else ""
        begin = f"BEGIN{level}{' READ ONLY' if readonly else ''}; {self._settings}"
        end, undo = "COMMIT", "ROLLBACK"
        if self._depth:
            name = f"noetl_{self._depth}"
            begin, end = f"SAVEPOINT {name}", f"RELEASE SAVEPOINT {name}"
            undo = f"ROLLBACK TO SAVEPOINT {name}"
        await self._connection.execute(begin)
        self._depth += 1
        try:
            yield
        except BaseException:
            await self._undo(undo)
            raise
        finally:
            self._depth -= 1
        await self._connection.execute(end)

    @asynccontextmanager
    async def _own(self) -> AsyncIterator[None]:
        if self._depth:
            yield
        else:
            async with self.transaction():
                yield

    async def _undo(self, undo: str) -> None:
        """Roll back; close a connection that cannot, so that it is not used again."""
        if self._connection.is_closed():
            return
        try:
            await self._connection.execute(undo)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            self._connection.terminate()


def _assignments(verb: str, settings: Mapping[str, str]) -> str:
    return "; ".join(f"{verb} {name} = {value}" for name, value in settings.items())


def notice_silence(connection: Any) -> None:
    """Let the kernel end a connection whose other end is silent for ``SILENCE_S``.

    The driver sets no such option: a call would wait for ever for the answer of a host
    that has lost its power or its network.
    """
    transport = connection._transport
    line = transport.get_extra_info("socket")
    if line is None or line.family not in (socket.AF_INET, socket.AF_INET6):
        return
    for level, name, value in OPTIONS:
        if hasattr(socket, name):  # not every system has all of them
            line.setsockopt(getattr(socket, level), getattr(socket, name), value)
