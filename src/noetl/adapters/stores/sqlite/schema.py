"""The SQL of the store: named queries, migrations, and the version of a file."""

from __future__ import annotations

import sqlite3
from functools import cache
from pathlib import Path

from noetl.adapters.sql_files import read_migrations, read_queries, statements
from noetl.errors import StoreError

_PACKAGE = __name__.rpartition(".")[0]
SQL = read_queries(_PACKAGE)
WAITS_SQL = {
    name: SQL[name]
    .replace("command AS c", "command AS c INDEXED BY command_waits")
    .replace("command WHERE", "command INDEXED BY command_waits WHERE")
    .replace("state = 'ready'", "state = 'ready' AND rank & 1")
    for name in ("next_family", "next_execution", "ready_commands", "is_offered")
}
"""The queries of a claim for commands that only wait."""


@cache
def migrations() -> list[tuple[int, str]]:
    """Return all migrations in order."""
    return read_migrations(_PACKAGE)


APPLICATION = 1315915092


def check_version(db: sqlite3.Connection, path: Path, newest: int) -> int:
    """Return the version of the file; raise if it is foreign, too new, or half made."""
    version, application, tables = _read(db)
    if not version and not tables:
        return 0
    if application != APPLICATION:
        raise StoreError(f"{path} is not a store of NoETL", "store.corrupt")
    if not version:
        message = f"{path} has tables but no version: a migration stopped half-way"
        raise StoreError(message, "store.migration")
    if version > newest:
        message = f"{path} has version {version}; this NoETL knows up to {newest}"
        raise StoreError(message, "store.version")
    return int(version)


def _read(db: sqlite3.Connection) -> list[int]:
    """Read version, application and number of tables in one snapshot: a writer may be
    creating them at this moment."""
    db.execute("BEGIN")
    try:
        return [
            db.execute(query).fetchone()[0]
            for query in (
                "PRAGMA user_version",
                "PRAGMA application_id",
                "SELECT count(*) FROM sqlite_master",
            )
        ]
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def newest_version() -> int:
    """Return the version that this NoETL migrates a store to."""
    return migrations()[-1][0]


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Migrate the file in one transaction: a concurrent reader sees either version,
    and never a part."""
    steps = migrations()
    version = check_version(db, path, steps[-1][0])
    missing = [script for number, script in steps if number > version]
    if not missing:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        for script in missing:
            for statement in statements(script):
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {steps[-1][0]}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def is_older(db: sqlite3.Connection, path: Path) -> bool:
    """Return whether a writer would migrate the file."""
    newest = newest_version()
    return 0 < check_version(db, path, newest) < newest


def require_current(db: sqlite3.Connection, path: Path) -> None:
    """Raise unless the file has the newest version: a reader cannot migrate it."""
    newest = newest_version()
    version = check_version(db, path, newest)
    if not version:
        raise StoreError(f"{path} holds nothing yet", "store.missing")
    if version < newest:
        message = f"{path} has version {version}, and is not brought to {newest}: "
        message += (
            "end the process that has it open, and look at the rights of the file"
        )
        raise StoreError(message, "store.version")
