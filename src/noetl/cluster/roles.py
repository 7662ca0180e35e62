"""Roles of the PostgreSQL of a home: one owns everything, one is for servers.

Earlier versions had one role, made by ``initdb``: a superuser, which PostgreSQL does
not demote. It is given another name, and servers get a new role of the old name.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

from noetl.errors import ConfigError

ROLE = "noetl"
OWNER = "noetl_owner"
DATABASE = "postgres"
_HELPING = "noetl_renaming"
_ATTRIBUTES = "LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS"
_TIMEOUT = 10.0


def address_of(role: str, password: str, port: int) -> str:
    return f"postgresql://{role}:{password}@127.0.0.1:{port}/{DATABASE}"


def divide_roles(port: int, owner_password: str, password: str) -> bool:
    """Make the role of servers what it must be; whether one role did all before.

    Can be done again at any time, also after it was interrupted. Raises
    ``ConfigError``.
    """
    try:
        import asyncpg
    except ModuleNotFoundError:
        message = "noetl up needs the package asyncpg; run: pip install '.[cluster]'"
        raise ConfigError(f"{message} in a checkout of NoETL") from None
    try:
        return asyncio.run(_divide(port, owner_password, password))
    except (asyncpg.PostgresError, OSError, TimeoutError) as error:
        why = getattr(error, "sqlstate", None) or type(error).__name__
        raise ConfigError(f"PostgreSQL's roles cannot be made ({why})") from None


async def _divide(port: int, owner_password: str, password: str) -> bool:
    import asyncpg

    divided = False
    try:
        owner = await _connect(OWNER, owner_password, port)
    except asyncpg.InvalidAuthorizationSpecificationError:  # there is none yet
        await _rename(port, owner_password, password)
        owner = await _connect(OWNER, owner_password, port)
        divided = True
    try:
        await owner.execute(f"DROP ROLE IF EXISTS {_HELPING}")
        sql = "SELECT rolsuper FROM pg_roles WHERE rolname = $1"
        verb = "CREATE" if await owner.fetchval(sql, ROLE) is None else "ALTER"
        made = f"{verb} ROLE {ROLE} {_ATTRIBUTES} PASSWORD '{password}'"
        async with owner.transaction():
            await owner.execute(made)
            await owner.execute(f"REVOKE ALL ON DATABASE {DATABASE} FROM PUBLIC")
            await owner.execute(f"GRANT CONNECT ON DATABASE {DATABASE} TO {ROLE}")
    finally:
        await owner.close()
    return divided


async def _rename(port: int, owner_password: str, password: str) -> None:
    """A role cannot give itself another name: one that lives for a moment does it."""
    once = secrets.token_hex(24)
    before = await _connect(ROLE, password, port)
    try:
        await before.execute(f"DROP ROLE IF EXISTS {_HELPING}")
        await before.execute(
            f"CREATE ROLE {_HELPING} LOGIN SUPERUSER PASSWORD '{once}'"
        )
    finally:
        await before.close()
    helping = await _connect(_HELPING, once, port)
    try:
        async with helping.transaction():
            await helping.execute(f"ALTER ROLE {ROLE} RENAME TO {OWNER}")
            await helping.execute(f"ALTER ROLE {OWNER} PASSWORD '{owner_password}'")
            made = f"CREATE ROLE {ROLE} {_ATTRIBUTES} PASSWORD '{password}'"
            await helping.execute(made)
    finally:
        await helping.close()


async def _connect(role: str, password: str, port: int) -> Any:
    import asyncpg

    return await asyncpg.connect(address_of(role, password, port), timeout=_TIMEOUT)
