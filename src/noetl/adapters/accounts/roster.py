"""The roster of workers in a table, beside the accounts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl.access.roster import Heard
from noetl.adapters.accounts.database import Database
from noetl.adapters.scripts import read_queries

_SQL = read_queries(__package__)


class SqlRoster:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def note(self, heard: Heard) -> None:
        await self._database.fetch(_SQL["hear"], *msgspec.structs.astuple(heard))

    async def heard(self, *, since: float) -> Sequence[Heard]:
        rows = await self._database.fetch(_SQL["heard"], since)
        names = Heard.__struct_fields__
        return [Heard(**dict(zip(names, row, strict=True))) for row in rows]

    async def forget(self, *, before: float) -> None:
        await self._database.fetch(_SQL["forget"], before)
