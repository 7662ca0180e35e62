"""One SQLite file for what an embedded server knows of its users, or of triggers."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from noetl.adapters.scripts import read_migrations
from noetl.adapters.stores.sqlite.faults import translated
from noetl.adapters.stores.sqlite.mounts import refuse_network
from noetl.errors import StoreError

APPLICATION = 1315913555
ACCOUNTS = ("noetl.adapters.accounts", "noetl.adapters.sessions")
TRIGGERS = ("noetl.adapters.triggers",)
# No write-ahead log: several processes write here now and then, none of them often.
_PRAGMAS = """
PRAGMA busy_timeout = 5000
PRAGMA trusted_schema = OFF
PRAGMA cell_size_check = ON
PRAGMA foreign_keys = ON
PRAGMA journal_mode = DELETE
PRAGMA synchronous = FULL
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
        """Open or make it, for its owner alone, with the tables of these packages.

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
    """Each package numbers its own; all of one number go in one transaction."""
    steps = sorted(step for package in packages for step in read_migrations(package))
    db.execute("BEGIN IMMEDIATE")
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application != APPLICATION:
            message = f"{path} does not hold what NoETL keeps there"
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
