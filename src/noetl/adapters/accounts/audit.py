"""The audit in a table, beside the accounts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from noetl.access.audit import Entry
from noetl.adapters.accounts.database import Database
from noetl.adapters.scripts import read_queries

_SQL = read_queries(__package__)


class SqlAudit:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def note(self, entry: Entry) -> None:
        values = msgspec.structs.asdict(entry)
        values["target"] = msgspec.json.encode(dict(entry.target)).decode()
        await self._database.fetch(_SQL["note"], *values.values())

    async def entries(
        self,
        *,
        user: str | None = None,
        action: str | None = None,
        since: float | None = None,
        before: str | None = None,
        limit: int,
    ) -> Sequence[Entry]:
        wanted = (user, action, since, before, limit)
        rows = await self._database.fetch(_SQL["entries"], *wanted)
        return [_entry(row) for row in rows]


def _entry(row: tuple[Any, ...]) -> Entry:
    fields = dict(zip(Entry.__struct_fields__, row, strict=True))
    return Entry(**{**fields, "target": msgspec.json.decode(fields["target"])})
