"""Catalog in one SQLite file, which several processes may use at the same time."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from noetl.adapters.catalogs.files import next_number, rank, same_or_taken
from noetl.adapters.secrets.private_files import make_folder
from noetl.errors import StoreError
from noetl.ports import Registered

T = TypeVar("T")
VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS playbook (
  number INTEGER PRIMARY KEY,
  playbook_id TEXT NOT NULL UNIQUE,
  path TEXT NOT NULL,
  version TEXT NOT NULL,
  rank TEXT NOT NULL,
  body TEXT NOT NULL,
  UNIQUE (path, version)
);
CREATE INDEX IF NOT EXISTS playbook_rank ON playbook (path, rank, number);
"""
_LATEST = """
SELECT body FROM playbook AS p
WHERE path > ? AND substr(path, 1, ?) = ? AND NOT EXISTS (
  SELECT 1 FROM playbook AS q
  WHERE q.path = p.path AND (q.rank, q.number) > (p.rank, p.number)
)
ORDER BY path LIMIT ?
"""
_OF_PATH = "SELECT body FROM playbook WHERE path = ? "
_NEWEST = "ORDER BY rank DESC, number DESC LIMIT ?"


class SqliteCatalogRows:
    """One connection, used by one thread at a time; each change is a transaction."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None

    async def close(self) -> None:
        with self._lock:
            db, self._db = self._db, None
        if db is not None:
            db.close()

    async def add(self, playbook: Registered) -> Registered:
        return await self._run(lambda db: _add(db, playbook))

    async def get(self, playbook_id: str) -> Registered | None:
        sql = "SELECT body FROM playbook WHERE playbook_id = ?"
        return await self._run(lambda db: _one(db, sql, playbook_id))

    async def find(self, path: str, version: str | None) -> Registered | None:
        if version is None:
            return await self._run(lambda db: _one(db, _OF_PATH + _NEWEST, path, 1))
        sql = f"{_OF_PATH} AND version = ?"
        return await self._run(lambda db: _one(db, sql, path, version))

    async def versions(self, path: str, *, limit: int = 1_000) -> Sequence[Registered]:
        return await self._run(lambda db: _all(db, _OF_PATH + _NEWEST, path, limit))

    async def latest(
        self, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> Sequence[Registered]:
        given = (after, len(prefix), prefix, limit)
        return await self._run(lambda db: _all(db, _LATEST, *given))

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.to_thread(self._work, work)

    def _work(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            try:
                if self._db is None:
                    self._db = _open(self._path)
                return work(self._db)
            except (sqlite3.Error, OSError) as error:
                raise StoreError(f"{self._path}: {error}", "store.io") from error


def _open(path: Path) -> sqlite3.Connection:
    make_folder(path.parent)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA busy_timeout = 5000")
    db.execute("PRAGMA journal_mode = WAL").fetchone()
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA trusted_schema = OFF")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        db.close()
        message = f"{path} has version {version}; this NoETL knows up to {VERSION}"
        raise StoreError(message, "store.version")
    if version < VERSION:
        db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA}; COMMIT")
        db.execute(f"PRAGMA user_version = {VERSION}")
    return db


def _add(db: sqlite3.Connection, playbook: Registered) -> Registered:
    db.execute("BEGIN IMMEDIATE")
    try:
        added = _added(db, playbook)
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")
    return added


def _added(db: sqlite3.Connection, playbook: Registered) -> Registered:
    path, version = playbook.path, playbook.version
    if version:
        known = _one(db, f"{_OF_PATH} AND version = ?", path, version)
    else:
        known = _one(db, _OF_PATH + _NEWEST, path, 1)
        if known is not None and known.sha256 != playbook.sha256:
            known = None
    if known is not None:
        return same_or_taken(known, playbook)
    if not version:
        rows = db.execute("SELECT version FROM playbook WHERE path = ?", (path,))
        version = next_number(row[0] for row in rows)
        playbook = msgspec.structs.replace(playbook, version=version)
    body = msgspec.json.encode(playbook).decode()
    row = (playbook.playbook_id, path, version, rank(version), body)
    db.execute(
        "INSERT INTO playbook (playbook_id, path, version, rank, body) "
        "VALUES (?, ?, ?, ?, ?)",
        row,
    )
    return playbook


def _one(db: sqlite3.Connection, sql: str, *given: object) -> Registered | None:
    found = _all(db, sql, *given)
    return found[0] if found else None


def _all(db: sqlite3.Connection, sql: str, *given: object) -> list[Registered]:
    rows = db.execute(sql, given).fetchall()
    return [msgspec.json.decode(body, type=Registered) for (body,) in rows]
