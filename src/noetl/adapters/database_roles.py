"""Roles of PostgreSQL: an owner makes the tables, servers have the rights they need.

The log is append-only for servers: they may insert and read events, and no more
(RELIABILITY B9). Executions are removed by a function that belongs to the owner.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg
import msgspec

from noetl.adapters.postgres import Postgres
from noetl.adapters.sql_files import read_migrations
from noetl.adapters.stores.postgres.store import read_functions
from noetl.errors import ConfigError, StoreError

PARTS = {
    "log": "noetl.adapters.stores.postgres",
    "catalog": "noetl.adapters.catalogs",
    "secrets": "noetl.adapters.secrets",
    "blobs": "noetl.adapters.blobs",
    "accounts": "noetl.adapters.accounts",
    "triggers": "noetl.adapters.triggers",
}
_ORDINARY = "SELECT, INSERT, UPDATE, DELETE"
_RIGHTS = {
    "event": "SELECT, INSERT",
    "batch": "SELECT, INSERT",
    "dictionary": "SELECT",
    "playbook_line": "SELECT, INSERT",
    "task_log": "SELECT, INSERT",
    "execution": "SELECT, INSERT, UPDATE",
    "label": "SELECT, INSERT",
    "fork": "SELECT, INSERT",
    "retention": "SELECT, INSERT, UPDATE",
    "audit": "SELECT, INSERT, UPDATE (target, status, problem)",
    "data_key": "SELECT, INSERT, DELETE",
    "server_key": "SELECT, INSERT, UPDATE",
    "migration": "SELECT",
    "made_functions": "SELECT",
}
"""Rights of servers on tables with fewer rights than ``_ORDINARY``."""
_FUNCTIONS = (
    "remove_executions(text[])",
    "add_partitions()",
    "drop_partition()",
    "remove_audit(double precision, integer)",
)
"""Functions with the rights of the owner, which servers may call."""
_TABLES = """
SELECT quote_ident(relname) AS name, relispartition AS is_part FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
ORDER BY relname
"""
_READ_ROLE = """
SELECT current_user::text AS name,
  (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS is_superuser,
  EXISTS (SELECT 1 FROM pg_class WHERE oid = to_regclass('event')
    AND pg_has_role(current_user, relowner, 'MEMBER')) AS owns_log
"""


class Role(msgspec.Struct, frozen=True):
    """Database role that a server uses."""

    name: str
    is_superuser: bool
    owns_log: bool


async def prepare_database(owner: str, address: str) -> None:
    """Migrate all tables as their owner and grant rights to the role of ``address``.

    Raises ``StoreError`` or ``ConfigError``.
    """
    role = role_of(address)
    postgres = Postgres(owner, size=1)
    try:
        for part, package in PARTS.items():
            functions = read_functions() if part == "log" else ""
            await postgres.migrate(part, read_migrations(package), functions)
        if role != (await look_at_role(postgres)).name:
            await _grant(postgres, role)
    finally:
        await postgres.close()


def role_of(address: str) -> str:
    """Return the role that an address names. Raises ``ConfigError``."""
    parts = urlsplit(address)
    named = parse_qs(parts.query).get("user", [None])[0]
    role = unquote(parts.username) if parts.username else named
    if not role:
        message = "NOETL_DATABASE names no role, and NOETL_DATABASE_OWNER needs one to"
        hint = "write postgresql://role@host/name"
        raise ConfigError(f"{message} grant rights to; {hint}")
    return role


async def look_at_role(postgres: Postgres) -> Role:
    row: Any = await postgres.run(lambda connection: connection.fetchrow(_READ_ROLE))
    return Role(*row)


def judge_role(role: Role) -> str | None:
    """Return the problem with a role that a server uses, or None."""
    if role.is_superuser:
        return f"the database role '{role.name}' is a superuser: give servers another"
    if role.owns_log:
        return (
            f"the database role '{role.name}' owns the log, and could remove its guard"
        )
    return None


async def _grant(postgres: Postgres, role: str) -> None:
    async def work(connection: Any) -> None:
        async with connection.transaction():
            await postgres.begin_change(connection)
            name = await connection.fetchval("SELECT quote_ident($1)", role)
            schema = await connection.fetchval("SELECT current_schema()")
            await connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO {name}")
            for table, is_part in await connection.fetch(_TABLES):
                await connection.execute(f"REVOKE ALL ON {table} FROM {name}")
                if not is_part:  # a partition has the rights of its table
                    rights = _RIGHTS.get(table, _ORDINARY)
                    await connection.execute(f"GRANT {rights} ON {table} TO {name}")
            every = f"ALL SEQUENCES IN SCHEMA {schema}"  # to see how far they are
            await connection.execute(f"GRANT SELECT ON {every} TO {name}")
            for each in _FUNCTIONS:
                await connection.execute(f"GRANT EXECUTE ON FUNCTION {each} TO {name}")

    try:
        await postgres.run(work, bounded=False)
    except StoreError as error:
        if isinstance(error.__cause__, asyncpg.UndefinedObjectError):
            message = f"the role '{role}' of NOETL_DATABASE does not exist: create it"
            raise ConfigError(message) from None
        raise
