"""The tables of accounts in PostgreSQL."""

from __future__ import annotations

import asyncio
from typing import Any

from noetl.adapters.postgres import Postgres
from noetl.adapters.scripts import read_migrations


class PostgresDatabase:
    """The tables are made at first use."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._ready = False
        self._opening = asyncio.Lock()

    async def fetch(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        async with self._opening:
            if not self._ready:
                steps = read_migrations("noetl.adapters.accounts")
                await self._postgres.migrate("accounts", steps)
                self._ready = True
        return await self._postgres.fetch(query, *values)

    async def close(self) -> None:
        await self._postgres.close()
