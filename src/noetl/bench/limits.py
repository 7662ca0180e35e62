"""What the machine can do by itself, at the same time: disks change by the hour."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from tempfile import TemporaryDirectory

ROWS = 6
"""Events of one step: what a step of a chain commits."""
BODY, HASH = bytes(420), bytes(32)


def sync_rate(folder: Path, seconds: float) -> float:
    """Appends of 4 KiB, each on the disk, per second."""
    path = folder / "sync"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        count, began = 0, time.perf_counter()
        while (took := time.perf_counter() - began) < seconds:
            os.write(file, bytes(4096))
            os.fsync(file)
            count += 1
        return count / took
    finally:
        os.close(file)
        path.unlink()


def commit_rate(folder: Path, seconds: float) -> float:
    """Commits of the rows of one step, as durable as ours, per second."""
    with TemporaryDirectory(dir=folder) as place:
        return _commit_rate(Path(place) / "commits.db", seconds)


def _commit_rate(path: Path, seconds: float) -> float:
    db = sqlite3.connect(path, isolation_level=None)
    try:
        for setting in ("journal_mode = WAL", "synchronous = FULL"):
            db.execute(f"PRAGMA {setting}")
        db.execute("PRAGMA wal_autocheckpoint = 512")  # so that the log is recycled
        db.execute("CREATE TABLE event (key INTEGER PRIMARY KEY, hash BLOB, body BLOB)")
        count, began = 0, time.perf_counter()
        while (took := time.perf_counter() - began) < seconds:
            rows = [(count * ROWS + each, HASH, BODY) for each in range(ROWS)]
            db.execute("BEGIN IMMEDIATE")
            db.executemany("INSERT INTO event VALUES (?, ?, ?)", rows)
            db.execute("COMMIT")
            count += 1
        return count / took
    finally:
        db.close()
