"""Connections to the file: one that writes, and those that only read."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from noetl.errors import StoreError

STATEMENTS = 128
"""Prepared statements kept per connection: more than there are queries."""

_EVERYWHERE = """
PRAGMA busy_timeout = 5000
PRAGMA trusted_schema = OFF
PRAGMA cell_size_check = ON
PRAGMA temp_store = MEMORY
"""
_WRITER = """
PRAGMA synchronous = FULL
PRAGMA wal_autocheckpoint = 0
PRAGMA journal_size_limit = -1
PRAGMA foreign_keys = ON
PRAGMA cache_size = -16384
"""


def connect_writer(path: Path) -> sqlite3.Connection:
    """Make the file if it is not there; it is its user's alone."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    if not path.exists():
        os.close(os.open(path, flags, 0o600))
    db = _connect(path, "rw")
    try:
        _set(db, _EVERYWHERE)
        (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            message = f"{path}: the file system cannot hold a write-ahead log"
            raise StoreError(message, "store.io")
        _set(db, _WRITER)
    except BaseException:
        db.close()
        raise
    return db


def connect_reader(path: Path) -> sqlite3.Connection:
    """It sees what is committed and never waits for, or delays, the writer."""
    if not path.exists():
        raise StoreError(f"{path} does not exist", "store.missing")
    db = _connect(path, "ro")
    try:
        _set(db, _EVERYWHERE)
    except BaseException:
        db.close()
        raise
    return db


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,  # transactions begin and end where the code says so
        check_same_thread=False,  # each is used by one thread at a time
        cached_statements=STATEMENTS,
    )


def _set(db: sqlite3.Connection, pragmas: str) -> None:
    for pragma in pragmas.strip().splitlines():
        db.execute(pragma).fetchall()
