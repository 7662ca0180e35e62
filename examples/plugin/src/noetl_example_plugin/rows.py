"""Result store ``sqlite``: large results as rows of a database file."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from urllib.parse import unquote, urlsplit

from noetl.plugins import BlobGone, ResultPlugin

_TABLE = "CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, data BLOB NOT NULL)"


class SqliteResults:
    """Opens the file for each call: calls come from several threads."""

    def __init__(self, url: str) -> None:
        found = urlsplit(url)
        if found.netloc or not found.path.startswith("/"):
            raise ValueError(f"write it as sqlite:///path/of/file, not {url}")
        self._file = unquote(found.path)

    async def put(self, key: str, data: bytes) -> None:
        await asyncio.to_thread(self._put, key, data)

    async def get(self, key: str) -> bytes:
        return await asyncio.to_thread(self._get, key)

    def _put(self, key: str, data: bytes) -> None:
        with closing(self._open()) as database, database:
            database.execute(
                "INSERT OR REPLACE INTO results VALUES (?, ?)", (key, data)
            )

    def _get(self, key: str) -> bytes:
        with closing(self._open()) as database:
            query = "SELECT data FROM results WHERE key = ?"
            row = database.execute(query, (key,)).fetchone()
        if row is None:
            raise BlobGone(f"{self._file} has no result {key}")
        data: bytes = row[0]
        return data

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._file, timeout=30)
        database.execute("PRAGMA synchronous = FULL")  # durable when put returns
        database.execute(_TABLE)
        return database


PLUGIN = ResultPlugin(api=1, make=SqliteResults)
