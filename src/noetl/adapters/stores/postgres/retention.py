"""Removal of finished executions from PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import asyncpg
import msgspec

from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.batches import MAX_EVENTS
from noetl.adapters.stores.postgres.queries import SQL, PlaybookLines
from noetl.adapters.stores.summaries import durations_in, read_line
from noetl.errors import StoreError
from noetl.ports import Family, LogHead, Removal
from noetl.ports.retention import MAX_MEMBERS, LogRow, Refused

_LAST = (1 << 31) - 1

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Removal).decode


class PostgresRetention:
    """Servers may not delete events: functions of the tables' owner do it."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._playbooks = PlaybookLines(postgres)

    async def families(self, *, after: int = 0, limit: int = 200) -> Sequence[Family]:
        given = (after, limit, MAX_MEMBERS + 1)
        rows = await self._fetch("families", *given)
        lines = await self._playbooks.find([row["summary"] for row in rows])
        return [
            _family(root, list(members), lines)
            for root, members in groupby(rows, key=lambda row: int(row["root"]))
        ]

    async def kin(self, root: int, *, before: int, limit: int = MAX_MEMBERS) -> Family:
        rows = await self._fetch("kin", root, before, limit + 1)
        lines = await self._playbooks.find([row["summary"] for row in rows])
        some = rows[:limit]
        held = any(row["is_held"] for row in some)
        return Family(root, _heads(some, lines), held, len(rows) > limit)

    async def own_durations(self) -> Sequence[str]:
        return durations_in([row[0] for row in await self._fetch("own_retention")])

    async def rows(
        self, execution_id: str, *, after: int, limit: int
    ) -> Sequence[LogRow]:
        given = (execution_id, after, _LAST, MAX_EVENTS, limit)
        rows = await self._fetch("rows", *given)
        return [LogRow(*row[1:]) for row in rows if row[1] is not None]

    async def take_turn(
        self, owner: str, *, now: float, ttl: float
    ) -> Removal | Refused | None:
        rows = await self._fetch("take_retention", owner, now + ttl, now)
        if not rows:
            return Refused()
        return None if rows[0][0] is None else _decode(rows[0][0])

    async def plan(self, owner: str, removal: Removal | None) -> None:
        text = None if removal is None else _encode(removal).decode()
        if not await self._fetch("plan_removal", owner, text):
            raise lost_turn()

    async def carry_out(self, owner: str, removal: Removal) -> None:
        async def work(connection: Any) -> None:
            async with connection.transaction():
                # The row stays locked: a later owner waits until all is removed.
                if not await connection.fetchval(SQL["lock_turn"], owner):
                    raise lost_turn()
                names = list(removal.execution_ids)
                if not await connection.fetchval(SQL["are_stored"], names):
                    return
                try:
                    await connection.execute(SQL["remove_executions"], names)
                except (
                    asyncpg.RaiseError,
                    asyncpg.ForeignKeyViolationError,
                ) as error:
                    raise StoreError(str(error), "store.conflict") from None

        await self._postgres.run(work)

    async def free_space(self) -> int:
        [[part]] = await self._fetch("drop_partition")
        return 0 if part is None else 1

    async def _fetch(self, query: str, *given: Any) -> list[Any]:
        rows: list[Any]
        rows = await self._postgres.run(lambda c: c.fetch(SQL[query], *given))
        return rows


def _family(root: int, rows: list[Any], lines: Mapping[str, str]) -> Family:
    *kin, first = rows
    held = any(row["is_held"] for row in rows)
    some = [*kin[:MAX_MEMBERS], first]
    return Family(root, _heads(some, lines), held, len(kin) > MAX_MEMBERS)


def _heads(rows: Sequence[Any], lines: Mapping[str, str]) -> list[LogHead]:
    return [
        LogHead(
            row["number"],
            row["last_seq"],
            read_line(row["execution_id"], row["summary"], lines),
        )
        for row in rows
    ]


def lost_turn() -> StoreError:
    message = "another server removes old executions now"
    return StoreError(message, "store.conflict")
