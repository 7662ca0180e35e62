"""Tables of accounts or triggers: in a SQLite file, or in PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from noetl.adapters.sql_files import read_migrations
from noetl.adapters.stores.sqlite.connection import refuse_network, translated
from noetl.errors import StoreError

if TYPE_CHECKING:
    from noetl.adapters.postgres import Postgres  # needs an extra

APPLICATION = 1315913555
ACCOUNTS = ("noetl.adapters.accounts", "noetl.adapters.sessions")
TRIGGERS = ("noetl.adapters.triggers",)
# No write-ahead log: several processes write to this file, each of them rarely. EXTRA
# syncs the folder, too, once a commit has removed the rollback journal: a journal that
# comes back after a power cut would undo the commit.
_PRAGMAS = """
PRAGMA busy_timeout = 5000
PRAGMA trusted_schema = OFF
PRAGMA cell_size_check = ON
PRAGMA foreign_keys = ON
PRAGMA journal_mode = DELETE
PRAGMA synchronous = EXTRA
PRAGMA secure_delete = ON
"""


class SqliteFile:
    """A connection on a thread of its own; other processes may have theirs."""

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        self._path = path
        self._db = db
        self._thread = ThreadPoolExecutor(1, f"noetl-{path.stem}")

    @classmethod
    def open(cls, path: Path, packages: Sequence[str] = ACCOUNTS) -> SqliteFile:
        """Open or create the file (mode 0600) with the tables of these packages.

        Raises ``StoreError``.
        """
        path = path.resolve()
        refuse_network(path)
        with translated(path):
            if not path.exists():
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                os.close(os.open(path, flags, 0o600))
            db = sqlite3.connect(
                f"{path.as_uri()}?mode=rw",
                uri=True,
                isolation_level=None,
                check_same_thread=False,  # opened here, used on the thread alone
            )
            try:
                for pragma in _PRAGMAS.strip().splitlines():
                    db.execute(pragma).fetchall()
                _migrate(db, path, packages)
            except BaseException:
                db.close()
                raise
        return cls(path, db)

    async def fetch(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        named = {str(number): value for number, value in enumerate(values, 1)}
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._run, query, named)

    def _run(self, query: str, named: dict[str, Any]) -> list[tuple[Any, ...]]:
        with translated(self._path):
            return self._db.execute(query, named).fetchall()

    async def close(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)
        self._db.close()


def _migrate(db: sqlite3.Connection, path: Path, packages: Sequence[str]) -> None:
    """Apply the missing migrations of all packages, by number, in one transaction."""
    steps = sorted(step for package in packages for step in read_migrations(package))
    db.execute("BEGIN IMMEDIATE")
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application != APPLICATION:
            message = f"{path} is not a database of NoETL: move it away and try again"
            raise StoreError(message, "store.corrupt")
        if version > steps[-1][0]:
            message = f"{path} has version {version}; this NoETL knows {steps[-1][0]}"
            raise StoreError(message, "store.version")
        for number, script in steps:
            if number > version:
                for statement in script.split(";\n"):
                    db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {steps[-1][0]}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


class Database(Protocol):
    async def fetch(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run one statement with ``$1``, ``$2``, …; durable when this returns.

        Raises ``StoreError``.
        """
        ...


class PostgresDatabase:
    """Creates its tables on the first call."""

    def __init__(self, postgres: Postgres, part: str = "accounts") -> None:
        self._postgres = postgres
        self._part = part
        self._ready = False
        self._opening = asyncio.Lock()

    async def fetch(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        async with self._opening:
            if not self._ready:
                steps = read_migrations(f"noetl.adapters.{self._part}")
                await self._postgres.migrate(self._part, steps)
                self._ready = True
        return await self._postgres.fetch(query, *values)

    async def close(self) -> None:
        await self._postgres.close()
