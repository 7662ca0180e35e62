"""Accounts of a server that is not running, written to the store it will read."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack

from noetl.access.audit import Entry
from noetl.adapters.accounts.passwords import Argon2Passwords
from noetl.adapters.accounts.tables import SqlAccounts, SqlAudit
from noetl.adapters.sessions.sqlite import SqliteSessions
from noetl.adapters.sql_database import Database, SqliteFile
from noetl.api.users import describe
from noetl.config import DATABASE, DATABASE_OWNER, Settings
from noetl.errors import ConfigError
from noetl.extras import install_command
from noetl.local.home import Home
from noetl.runtime.event_loop import SystemClock
from noetl.service.access.accounts import LOCAL, AccountService
from noetl.types import JSON
from noetl.wiring.identifiers import new_audit_id


def add_account(
    settings: Settings,
    home: Home,
    name: str,
    roles: list[str],
    *,
    password: str | None,
    email: str | None,
    display_name: str | None,
) -> JSON:
    """Create an account and return its document.

    Raises ``ConfigError``, ``AccessError`` or ``StoreError``.
    """

    async def add() -> JSON:
        async with AsyncExitStack() as closing:
            file = SqliteFile.open(home.accounts)
            closing.push_async_callback(file.close)
            tables = await _tables(settings, home, file, closing)
            people = AccountService(
                SqlAccounts(tables),
                SqliteSessions(file),  # a new account has no sessions to end
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
                audit_id=new_audit_id(),
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


async def _tables(
    settings: Settings, home: Home, file: SqliteFile, closing: AsyncExitStack
) -> Database:
    settings = settings
    address = settings[DATABASE]
    if address is None:
        if (home.folder / "postgres").is_dir():
            message = (
                "the accounts of this home are in its PostgreSQL, which is stopped"
            )
            raise ConfigError(f"{message}; start it: noetl up")
        return file
    try:
        from noetl.adapters.database_roles import prepare_database
        from noetl.adapters.postgres import Postgres
        from noetl.adapters.sql_database import PostgresDatabase
    except ModuleNotFoundError:
        message = "a database needs the package asyncpg"
        hint = f"run: {install_command('postgres')}"
        raise ConfigError(f"{message}; {hint}") from None
    owner = settings[DATABASE_OWNER]
    if owner is not None:
        await prepare_database(owner, address)
    database = PostgresDatabase(Postgres(address))
    closing.push_async_callback(database.close)
    return database
