"""The tables of accounts in PostgreSQL."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import asyncpg

from noetl.adapters.scripts import read_migrations
from noetl.errors import ConfigError, StoreError

_SIZE = 4
_SECONDS = 10.0
_LOCK = 0x4E6F4163  # two servers that start at once migrate one after the other
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}\Z")


class PostgresDatabase:
    """A small pool. ``schema`` is where the tables are; they are made at first use."""

    def __init__(self, dsn: str, *, schema: str = "noetl") -> None:
        if _SCHEMA.match(schema) is None:
            raise ConfigError(f"'{schema:.64}' is no name for a schema")
        self._dsn = dsn
        self._schema = schema
        self._pool: asyncpg.Pool | None = None
        self._opening = asyncio.Lock()

    async def fetch(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        try:
            pool = await self._open()
            return [tuple(row) for row in await pool.fetch(query, *values)]
        except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise _translate(error) from error
        except (OSError, TimeoutError, asyncpg.InternalClientError) as error:
            # The last is how the driver finds a connection that ends in mid-answer.
            raise _unreachable(type(error).__name__) from error

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def _open(self) -> asyncpg.Pool:
        async with self._opening:
            if self._pool is None:
                pool = await asyncpg.create_pool(
                    self._dsn,
                    min_size=0,
                    max_size=_SIZE,
                    timeout=_SECONDS,
                    command_timeout=_SECONDS,
                    server_settings={
                        "search_path": self._schema,
                        "application_name": "noetl accounts",
                    },
                )
                try:
                    await self._migrate(pool)
                except BaseException:
                    await pool.close()
                    raise
                self._pool = pool
        return self._pool

    async def _migrate(self, pool: asyncpg.Pool) -> None:
        steps = read_migrations("noetl.adapters.accounts")
        async with pool.acquire() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
            await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {self._schema}")
            await connection.execute(
                "CREATE TABLE IF NOT EXISTS account_version (version integer NOT NULL)"
            )
            query = "SELECT coalesce(max(version), 0) FROM account_version"
            version = await connection.fetchval(query)
            if version > steps[-1][0]:
                found = f"the accounts in schema '{self._schema}' have version"
                message = f"{found} {version}; this NoETL knows {steps[-1][0]}"
                raise StoreError(message, "store.version")
            for number, script in steps:
                if number > version:
                    await connection.execute(script)
                    insert = "INSERT INTO account_version VALUES ($1)"
                    await connection.execute(insert, number)


def _translate(error: asyncpg.PostgresError | asyncpg.InterfaceError) -> StoreError:
    """Without the message of a driver that could not connect: it may quote the dsn."""
    gone = (
        asyncpg.PostgresConnectionError,
        asyncpg.InterfaceError,
        asyncpg.OperatorInterventionError,
        asyncpg.InvalidAuthorizationSpecificationError,
        asyncpg.TooManyConnectionsError,
    )
    if isinstance(error, gone):
        return _unreachable(type(error).__name__)
    return StoreError(f"PostgreSQL: {error}", "store.error")


def _unreachable(why: str) -> StoreError:
    message = f"the accounts cannot be read, for PostgreSQL does not answer ({why})"
    return StoreError(message, "store.unreachable")
