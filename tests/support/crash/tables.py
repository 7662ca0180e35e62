"""Accounts and the catalog of a home: changes of them, and what is left of these."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path

from noetl.access.accounts import Account
from noetl.adapters.accounts.tables import SqlAccounts
from noetl.adapters.catalogs.sqlite import SqliteCatalogRows
from noetl.adapters.sql_database import SqliteFile
from noetl.local.home import Home
from noetl.ports import Registered

NOW = "2026-11-15T08:00:00.000000Z"
COUNT = 4
Tell = Callable[[str, dict[str, int]], None]


async def change_tables(home: Home, tell: Tell) -> None:
    """Add accounts and disable each of them, then register playbooks.

    ``tell`` is called after each change with the file and the new state of a row: 1 is
    there, 2 disabled.
    """
    file = SqliteFile.open(home.accounts)
    accounts = SqlAccounts(file)
    for number in range(COUNT):
        name = f"u{number}"
        await accounts.add(Account(user_id=name, name=name, grants=(), created_at=1.0))
        tell(home.accounts.name, {name: 1})
        await accounts.set_disabled(name, True)
        tell(home.accounts.name, {name: 2})
    await file.close()
    catalog = SqliteCatalogRows(home.catalog)
    for number in range(COUNT):
        name = f"tests/{number}"
        await catalog.add(_registered(name))
        tell(home.catalog.name, {name: 1})
    await catalog.close()


def _registered(name: str) -> Registered:
    return Registered(
        playbook_id=name,
        path=name,
        version="1",
        name=name,
        sha256="0" * 64,
        source="0" * 64,
        registered_at=NOW,
    )


async def read_accounts(file: Path) -> dict[str, int]:
    """Return the state of each account, by its name."""
    opened = SqliteFile.open(file)
    try:
        found = await SqlAccounts(opened).list_all()
    finally:
        await opened.close()
    return {each.name: 1 + each.disabled for each in found}


async def read_catalog(file: Path) -> dict[str, int]:
    """Return 1 for each playbook that is registered, by its path."""
    opened = SqliteCatalogRows(file)
    try:
        return {f"tests/{n}": 1 for n in range(COUNT) if await opened.get(f"tests/{n}")}
    finally:
        await opened.close()


READERS: dict[str, Callable[[Path], Awaitable[dict[str, int]]]] = {
    "accounts.db": read_accounts,
    "catalog.db": read_catalog,
}


async def check_tables(file: Path, told: dict[str, int | None]) -> list[str]:
    """Return what is wrong with a file of accounts or of a catalog."""
    found = await READERS[file.name](file)
    wrong = [
        f"{name} is {found.get(name, 0)}, and {state} was acknowledged"
        for name, state in told.items()
        if found.get(name, 0) < (state or 0)
    ]
    with closing(sqlite3.connect(file)) as db:
        return wrong + list(inspect(db))


def inspect(db: sqlite3.Connection) -> Iterator[str]:
    """Yield what SQLite finds wrong with a file."""
    answers = [line for (line,) in db.execute("PRAGMA integrity_check")]
    if answers != ["ok"]:
        yield f"integrity: {answers[:3]}"
    if broken := db.execute("PRAGMA foreign_key_check").fetchall():
        yield f"references to rows that are missing: {broken[:3]}"
