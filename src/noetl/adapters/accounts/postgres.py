"""The tables of accounts, or of another part, in PostgreSQL."""

from __future__ import annotations

import asyncio
from typing import Any

from noetl.adapters.postgres import Postgres
from noetl.adapters.scripts import read_migrations


class PostgresDatabase:
    """The tables are made at first use."""

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
