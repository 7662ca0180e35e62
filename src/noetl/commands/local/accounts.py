"""Accounts of a server that does not run: they are where it will look for them."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack

from noetl.access.audit import Entry
from noetl.adapters.accounts.accounts import SqlAccounts
from noetl.adapters.accounts.audit import SqlAudit
from noetl.adapters.accounts.database import Database
from noetl.adapters.accounts.passwords import Argon2Passwords
from noetl.adapters.accounts.sqlite import SqliteFile
from noetl.adapters.sessions.sqlite import SqliteSessions
from noetl.api.users import describe
from noetl.config import DATABASE, DATABASE_OWNER, read_settings
from noetl.embedded import new_execution_id
from noetl.errors import ConfigError
from noetl.home import Home
from noetl.runtime.clock import SystemClock
from noetl.runtime.people import LOCAL, People
from noetl.types import JSON


def add_account(
    home: Home,
    name: str,
    roles: list[str],
    *,
    password: str | None,
    email: str | None,
    display_name: str | None,
) -> JSON:
    """The new account. Raises ``ConfigError``, ``AccessError`` or ``StoreError``."""

    async def add() -> JSON:
        async with AsyncExitStack() as closing:
            file = SqliteFile.open(home.accounts)
            closing.push_async_callback(file.close)
            tables = await _tables(home, file, closing)
            people = People(
                SqlAccounts(tables),
                SqliteSessions(file),  # a new account has none to end
                Argon2Passwords(),
                SystemClock(),
            )
            made = await people.add(
                name,
                roles,
                password=password,
                email=email,
                display_name=display_name,
            )
            entry = Entry(
                audit_id=new_execution_id(),
                at=time.time(),
                action="add_user",
                principal=LOCAL,
                means="home",
                target={"name": made.name, "roles": roles},
                status=201,
            )
            await SqlAudit(tables).note(entry)
            return describe(made)

    home.make()
    return asyncio.run(add())


async def _tables(home: Home, file: SqliteFile, closing: AsyncExitStack) -> Database:
    settings = read_settings()
    address = settings[DATABASE]
    if address is None:
        if (home.folder / "postgres").is_dir():
            message = (
                "the accounts of this home are in its PostgreSQL, which is stopped"
            )
            raise ConfigError(f"{message}; start it: noetl up")
        return file
    try:
        from noetl.adapters.accounts.postgres import PostgresDatabase
        from noetl.adapters.database_roles import prepare_database
        from noetl.adapters.postgres import Postgres
    except ModuleNotFoundError:
        message = "a database needs the package asyncpg; run: pip install '.[postgres]'"
        raise ConfigError(f"{message} in a checkout of NoETL") from None
    owner = settings[DATABASE_OWNER]
    if owner is not None:
        await prepare_database(owner, address)
    database = PostgresDatabase(Postgres(address))
    closing.push_async_callback(database.close)
    return database
