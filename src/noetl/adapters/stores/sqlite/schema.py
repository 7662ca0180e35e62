"""The version of a store: checked at each opening, raised by migrations only."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from noetl.adapters.stores.sqlite.queries import migrations, statements
from noetl.errors import StoreError

APPLICATION = 1315915092


def check_version(db: sqlite3.Connection, path: Path, newest: int) -> int:
    """The file's version; raises if it is not ours, too new, or half made."""
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
    """Version, application and number of tables; of one moment, for a writer may be
    making them just now."""
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
    """What this NoETL brings a store to."""
    return migrations()[-1][0]


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Bring the file up to date, in one transaction: whoever reads it meanwhile finds
    it as it was, and never half-way."""
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


def require_current(db: sqlite3.Connection, path: Path) -> None:
    """A reader cannot migrate: it needs the version that its queries are for."""
    newest = newest_version()
    version = check_version(db, path, newest)
    if not version:
        raise StoreError(f"{path} holds nothing yet", "store.missing")
    if version < newest:
        message = f"{path} has version {version}; a writer must bring it to {newest}"
        raise StoreError(message, "store.version")
