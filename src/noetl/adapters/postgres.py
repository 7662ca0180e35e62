"""One PostgreSQL for all that a cluster keeps: connections, and tables up to date."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import Any, TypeVar

import asyncpg

from noetl.errors import ConfigError, StoreError

T = TypeVar("T")

SIZE = 8
CONNECT_TIMEOUT = 10.0
TRIES = 5
_LOCK = 0x4E6F4554  # "NoET": two servers that start at once migrate one after the other
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_AGAIN = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
_GONE = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.TooManyConnectionsError,
    OSError,
    TimeoutError,
)


class Postgres:
    """A pool, made when something is first asked.

    ``schema`` is where the tables are: several installations may share a database.
    """

    def __init__(self, dsn: str, *, schema: str = "noetl", size: int = SIZE) -> None:
        if _SCHEMA.fullmatch(schema) is None:
            raise ConfigError(f"'{schema:.64}' is no name for a schema")
        self._dsn = dsn
        self._schema = schema
        self._size = size
        self._pool: asyncpg.Pool | None = None
        self._places = asyncio.Semaphore(size)
        self._idle: list[Any] = []
        self._opening = asyncio.Lock()
        self._closed = False

    async def run(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Do it on some connection. Raises ``StoreError``; what lost a race is tried
        again, what lost its connection is not: nobody knows what became of it."""
        for attempt in range(1, TRIES + 1):
            try:
                return await self._run(work)
            except _AGAIN as error:
                if attempt == TRIES:
                    raise StoreError(f"PostgreSQL: {error}", "store.busy") from error
            except _GONE as error:
                raise _unreachable(error) from error
            except asyncpg.PostgresError as error:
                raise StoreError(f"PostgreSQL: {error}", "store.error") from error
        raise AssertionError

    async def fetch(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        rows = await self.run(lambda connection: connection.fetch(query, *values))
        return [tuple(row) for row in rows]

    async def migrate(
        self, part: str, steps: Sequence[tuple[int, str]], functions: str = ""
    ) -> None:
        """Bring the tables of a part to the version that this code needs.

        ``functions`` are made anew each time, also those that an earlier version
        declared otherwise. A role that may not make tables only looks whether those
        that are there will do. Raises ``StoreError`` if the tables are of a newer
        version, or of an older one and this role cannot change them.
        """
        newest = steps[-1][0]

        async def work(connection: Any) -> None:
            if not await connection.fetchval(_MAY_MAKE, self._schema):
                version, made = await _read_version(connection, part)
                self._check_version(part, version, newest)
                if version < newest or made != (_digest(functions) or made):
                    raise self._outdated(part)
                return
            async with connection.transaction():
                await self.begin_change(connection)
                await connection.execute(_MIGRATIONS)
                version = await connection.fetchval(_VERSION, part)
                self._check_version(part, version, newest)
                for number, script in steps:
                    if number > version:
                        await connection.execute(script)
                        await connection.execute(_MIGRATED, part, number)
                if functions:
                    await _make_functions(connection, functions)
                    await connection.execute(_MADE, part, _digest(functions))

        await self.run(work)

    async def begin_change(self, connection: Any) -> None:
        """In a transaction that changes tables or rights: one at a time, and what is
        declared in it looks for tables in this schema alone."""
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {self._schema}")
        await connection.execute(f"SET LOCAL search_path = {self._schema}, pg_temp")

    def _check_version(self, part: str, version: int, newest: int) -> None:
        if version > newest:
            raise StoreError(
                f"the tables of the {part} in schema '{self._schema}' are of version "
                f"{version}, this NoETL knows {newest}: use a newer NoETL",
                "store.version",
            )

    def _outdated(self, part: str) -> StoreError:
        message = f"the tables of the {part} in schema '{self._schema}' are missing or "
        message += "of an older NoETL, and this role has no right to change them"
        hint = "start a server once with NOETL_DATABASE_OWNER, the address of their "
        return StoreError(f"{message}: {hint}owner", "store.migration")

    async def close(self) -> None:
        self._closed = True
        pool, self._pool = self._pool, None
        if pool is not None:
            idle, self._idle = self._idle, []
            for connection in idle:
                await pool.release(connection)
            await pool.close()

    async def _run(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """To take a connection from the pool and to give it back costs as much as a
        small statement: it is kept until something goes wrong."""
        pool = self._pool or await self._open()
        async with self._places:
            connection = await self._take(pool)
            try:
                result = await work(connection)
            except BaseException:
                await pool.release(connection)
                raise
            if self._pool is pool:
                self._idle.append(connection)
            else:
                await pool.release(connection)
            return result

    async def _take(self, pool: asyncpg.Pool) -> Any:
        while self._idle:
            connection = self._idle.pop()
            if not _is_gone(connection):
                return connection
            await pool.release(connection)
        return await pool.acquire()

    async def _open(self) -> asyncpg.Pool:
        async with self._opening:
            if self._closed:
                raise StoreError("the store is closed", "store.closed")
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    self._dsn,
                    min_size=0,  # it is made when it is needed, also after a restart
                    max_size=self._size,
                    timeout=CONNECT_TIMEOUT,
                    reset=_leave,
                    server_settings={
                        "search_path": self._schema,
                        "application_name": "noetl",
                        "jit": "off",
                        "plan_cache_mode": "force_generic_plan",
                        # A plan is made while the tables are empty, and kept: one
                        # that walks through them would be kept, too.
                        "enable_seqscan": "off",
                    },
                )
        return self._pool


def _is_gone(connection: Any) -> bool:
    try:
        return bool(connection.is_closed())
    except asyncpg.InterfaceError:  # the pool has noticed before us
        return True


async def _leave(connection: Any) -> None:
    """Nothing that we do outlives its transaction: tidying up would be one more round
    trip for each one."""


async def _make_functions(connection: Any, functions: str) -> None:
    try:
        async with connection.transaction():
            await connection.execute(functions)
    except asyncpg.InvalidFunctionDefinitionError:  # one returns something else now
        names = _FUNCTION.findall(functions)
        for (signature,) in await connection.fetch(_DECLARED, names):
            await connection.execute(f"DROP FUNCTION {signature}")
        await connection.execute(functions)


_FUNCTION = re.compile(r"CREATE OR REPLACE FUNCTION (\w+)")
_DECLARED = """
SELECT oid::regprocedure::text FROM pg_proc
WHERE pronamespace = current_schema()::regnamespace AND proname = ANY ($1)
"""
_MIGRATIONS = """
CREATE TABLE IF NOT EXISTS migration (
  part text, version integer, done_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (part, version)
);
CREATE TABLE IF NOT EXISTS made_functions (part text PRIMARY KEY, digest text NOT NULL)
"""
_MAY_MAKE = """
SELECT coalesce((
  SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = $1
), true)
"""
_MADE = """
INSERT INTO made_functions VALUES ($1, $2)
ON CONFLICT (part) DO UPDATE SET digest = excluded.digest
"""
_WHICH = "SELECT digest FROM made_functions WHERE part = $1"
_VERSION = "SELECT coalesce(max(version), 0) FROM migration WHERE part = $1"
_MIGRATED = "INSERT INTO migration (part, version) VALUES ($1, $2)"


async def _read_version(connection: Any, part: str) -> tuple[int, str | None]:
    """The version of the tables, and which functions they have."""
    try:
        version = await connection.fetchval(_VERSION, part)
        return version, await connection.fetchval(_WHICH, part)
    except (asyncpg.UndefinedTableError, asyncpg.InsufficientPrivilegeError):
        return 0, None


def _digest(functions: str) -> str | None:
    return sha256(functions.encode()).hexdigest() if functions else None


def _unreachable(error: BaseException) -> StoreError:
    """Without the driver's own words: they may quote the address and its password."""
    why = getattr(error, "sqlstate", None) or type(error).__name__
    return StoreError(f"PostgreSQL does not answer ({why})", "store.unreachable")
