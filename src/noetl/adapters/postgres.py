"""Connection pool and migrations of the PostgreSQL database of a cluster."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import asyncpg

from noetl.adapters.poolers import (
    KEEPALIVE,
    PooledConnection,
    is_behind_pooler,
    look_at_session,
    notice_silence,
)
from noetl.errors import ConfigError, StoreError

T = TypeVar("T")

SIZE = 8
CONNECT_TIMEOUT = 10.0
STATEMENT_S = 30.0
"""Time after which PostgreSQL cancels a statement."""
ANSWER_S = 10.0
"""Further time for the answer; then the connection is closed: the host may be gone.
A cancel request is not sent: it would end a commit's wait for a synchronous standby."""
TRIES = 5
_LOCK = 0x4E6F4554  # "NoET": serializes the migrations of servers that start together
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_RETRYABLE = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
_UNREACHABLE = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.TooManyConnectionsError,
    asyncpg.OutOfMemoryError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    OSError,
    TimeoutError,
)
_READ_ONLY = (
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.TargetServerAttributeNotMatched,
)
_MOVED = (
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.IdleSessionTimeoutError,
    asyncpg.IdleInTransactionSessionTimeoutError,
)
"""Answers of a node that is shutting down, or is not the primary any more: all
connections are closed, and new ones find the node that takes writes."""


class Postgres:
    """Pool that is opened on the first call.

    ``schema`` holds the tables: several installations may share a database. Of several
    hosts in the ``dsn``, the one that takes writes is used. ``timeout`` bounds each
    statement, except those that change tables.
    """

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "noetl",
        size: int = SIZE,
        timeout: float = STATEMENT_S,
    ) -> None:
        if _SCHEMA.fullmatch(schema) is None:
            hint = "use lower-case letters, digits and '_'"
            raise ConfigError(f"'{schema:.64}' is not a valid schema name: {hint}")
        self._dsn = dsn
        self._schema = schema
        self._size = size
        self._timeout = timeout
        self._settings = {"search_path": schema} | _settings(timeout)
        self._has_pooler = False
        self._pool: asyncpg.Pool | None = None
        self._places = asyncio.Semaphore(size)
        self._idle: list[Any] = []
        self._opening = asyncio.Lock()
        self._closed = False

    async def run(
        self, work: Callable[[Any], Awaitable[T]], *, bounded: bool = True
    ) -> T:
        """Call ``work`` with a connection. Raises ``StoreError``.

        Unless it is ``bounded``, it may take longer than one statement may.
        A deadlock or serialization failure is retried. A lost connection is not, since
        the statement may have taken effect.
        """
        for attempt in range(1, TRIES + 1):
            try:
                return await self._run(work, bounded)
            except _RETRYABLE as error:
                if attempt == TRIES:
                    raise StoreError(f"PostgreSQL: {error}", "store.busy") from error
            except asyncpg.QueryCanceledError as error:
                raise self._slow() from error
            except asyncpg.ReadOnlySQLTransactionError as error:  # nothing was written
                if attempt == TRIES:
                    raise _unreachable(error) from error
            except _UNREACHABLE as error:
                raise _unreachable(error) from error
            except asyncpg.PostgresError as error:
                raise _failed(error) from error
        raise AssertionError

    async def fetch(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        rows = await self.run(lambda connection: connection.fetch(query, *values))
        return [tuple(row) for row in rows]

    async def migrate(
        self, part: str, steps: Sequence[tuple[int, str]], functions: str = ""
    ) -> None:
        """Bring the tables of a part to the version that this code needs.

        ``functions`` are replaced each time. A role that may not create tables only
        checks their version. Raises ``StoreError`` if the tables are of a newer
        version, or of an older one that this role cannot change.
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

        await self.run(work, bounded=False)

    async def begin_change(self, connection: Any) -> None:
        """Begin to change tables or rights, inside a transaction.

        Such transactions are serialized, and their functions see this schema alone.
        """
        await connection.execute("SET LOCAL statement_timeout = 0")
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {self._schema}")
        await connection.execute(f"SET LOCAL search_path = {self._schema}, pg_temp")

    def _check_version(self, part: str, version: int, newest: int) -> None:
        if version > newest:
            raise StoreError(
                f"the tables of the {part} in schema '{self._schema}' are of version "
                f"{version}, but this NoETL knows {newest}: use a newer NoETL",
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

    async def _run(self, work: Callable[[Any], Awaitable[T]], bounded: bool) -> T:
        """Run on an idle connection, and keep it unless ``work`` fails.

        Acquiring and releasing a connection costs as much as a small statement.
        """
        pool = self._pool or await self._open()
        async with self._places:
            idle = self._idle
            while idle and _is_gone(idle[-1]):
                await pool.release(idle.pop())
            connection = idle.pop() if idle else await pool.acquire()
            limit = self._timeout + ANSWER_S
            late = asyncio.get_running_loop().call_later(limit, connection.terminate)
            if not bounded:
                late.cancel()
            try:
                result = await work(self._prepared(connection))
            except _MOVED:
                await self._leave_node(pool, connection)
                raise
            except BaseException:
                await pool.release(connection)
                raise
            finally:
                late.cancel()
            if self._pool is pool:
                self._idle.append(connection)
            else:
                await pool.release(connection)
            return result

    async def _leave_node(self, pool: asyncpg.Pool, connection: Any) -> None:
        """Close the connections to a node that takes no writes."""
        idle, self._idle = self._idle, []
        await pool.expire_connections()
        for each in (connection, *idle):
            each.terminate()
            await pool.release(each)

    def _slow(self) -> StoreError:
        message = f"PostgreSQL cancelled a statement after {self._timeout:g} s (57014)"
        hint = "see what it waits for, or raise NOETL_DATABASE_TIMEOUT"
        return StoreError(f"{message}: {hint}", "store.unreachable")

    def _prepared(self, connection: Any) -> Any:
        if self._has_pooler:
            return PooledConnection(connection, self._settings)
        return connection

    async def _open(self) -> asyncpg.Pool:
        async with self._opening:
            if self._closed:
                raise StoreError("the store is closed", "store.closed")
            if self._pool is None:
                pool = await self._make_pool()
                try:
                    await pool.release(await pool.acquire())
                except asyncpg.PostgresError as error:
                    pool.terminate()
                    if not is_behind_pooler(error):
                        raise
                    self._has_pooler = True
                    pool = await self._make_pool()
                except BaseException:
                    pool.terminate()
                    raise
                self._pool = pool
        return self._pool

    async def _make_pool(self) -> asyncpg.Pool:
        options: dict[str, Any] = {}
        if self._has_pooler:
            options["statement_cache_size"] = 0  # sessions have no statements of ours
        return await asyncpg.create_pool(
            self._dsn,
            min_size=0,  # connect on demand, also after a restart
            max_size=self._size,
            timeout=CONNECT_TIMEOUT,
            reset=_leave,
            init=self._prepare,
            server_settings={"application_name": "noetl"},
            target_session_attrs=_wanted_node(self._dsn),
            **options,
        )

    async def _prepare(self, connection: Any) -> None:
        """Set up a new connection. Poolers refuse these settings when it is opened."""
        notice_silence(connection)
        if not self._has_pooler:
            wants_writes = _wanted_node(self._dsn) == "any" != _said_node(self._dsn)
            settings = self._settings | KEEPALIVE
            await look_at_session(connection, settings, wants_writes=wants_writes)


def _settings(timeout: float) -> dict[str, str]:
    """Return the settings of a session.

    Plans are made while the tables are empty and then cached; a sequential scan would
    be cached, too. A server that is frozen inside a transaction loses its locks.
    """
    patience = f"{round(timeout * 1000)}"
    return {
        "jit": "off",
        "plan_cache_mode": "force_generic_plan",
        "enable_seqscan": "off",
        "statement_timeout": patience,
        "idle_in_transaction_session_timeout": patience,
    }


def _said_node(dsn: str) -> str | None:
    said = parse_qs(urlsplit(dsn).query).get("target_session_attrs")
    return said[-1] if said else None


def _wanted_node(dsn: str) -> str:
    """Return which of several hosts to use: one that takes writes, unless the address
    says otherwise. With one host there is no choice, and the driver need not ask."""
    hosts = urlsplit(dsn).netloc.rpartition("@")[2]
    return _said_node(dsn) or ("read-write" if "," in hosts else "any")


def _is_gone(connection: Any) -> bool:
    try:
        return bool(connection.is_closed())
    except asyncpg.InterfaceError:  # the pool has already removed it
        return True


async def _leave(connection: Any) -> None:
    """Skip the pool's reset, a round trip: no state outlives our transactions."""


async def _make_functions(connection: Any, functions: str) -> None:
    try:
        async with connection.transaction():
            await connection.execute(functions)
    except asyncpg.InvalidFunctionDefinitionError:  # the type of a result has changed
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
    """Return the version of the tables and the digest of their functions."""
    try:
        version = await connection.fetchval(_VERSION, part)
        return version, await connection.fetchval(_WHICH, part)
    except (asyncpg.UndefinedTableError, asyncpg.InsufficientPrivilegeError):
        return 0, None


def _digest(functions: str) -> str | None:
    return sha256(functions.encode()).hexdigest() if functions else None


def _failed(error: BaseException) -> StoreError:
    """Make the error of a statement. What the disk lacks concerns no execution: the
    same commit may succeed later."""
    if isinstance(error, asyncpg.DiskFullError):
        return StoreError(f"PostgreSQL: {error}", "store.full")
    if isinstance(error, asyncpg.PostgresSystemError):
        return StoreError(f"PostgreSQL: {error}", "store.io")
    return StoreError(f"PostgreSQL: {error}", "store.error")


def _unreachable(error: BaseException) -> StoreError:
    """Make an error without the driver's text, which may quote the password."""
    if isinstance(error, _READ_ONLY):
        message = "PostgreSQL takes no writes: no host of its address is a primary"
        return StoreError(message, "store.unreachable")
    why = getattr(error, "sqlstate", None) or type(error).__name__
    return StoreError(f"PostgreSQL does not answer ({why})", "store.unreachable")
