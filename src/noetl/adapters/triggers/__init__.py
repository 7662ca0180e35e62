"""Adapters of the port ``Triggers``: the same tables in SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from noetl.access.initiator import Initiator
from noetl.adapters.sql_database import Database
from noetl.adapters.sql_files import read_queries
from noetl.ports import Backfill, Trigger
from noetl.triggers.backfill import Progress, State
from noetl.triggers.definition import Definition
from noetl.triggers.slots import Due

_SQL = read_queries(__package__)
_BACKFILL = (
    *("backfill_id", "trigger", "since", "until", "at_once", "total", "progress"),
    *("created_at", "created_by", "state", "revision"),
)
"""Names of the first columns and of their members."""


class SqlTriggers:
    """Makes each change by one statement, which fails for another revision."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, trigger: Trigger) -> bool:
        return await self._changes(
            "add",
            *(trigger.name, _write(trigger.definition), trigger.created_at),
            *(trigger.created_by, trigger.credential, trigger.paused),
            *(trigger.cursor, trigger.next_at, _write(trigger.pending)),
            *(trigger.last_slot, trigger.last_execution, trigger.revision),
            *(trigger.definition.kind, _write(trigger.owner)),
        )

    async def get(self, name: str) -> Trigger | None:
        for row in await self._fetch("get", name):
            return _trigger(row)
        return None

    async def list_all(self) -> Sequence[Trigger]:
        return [_trigger(row) for row in await self._fetch("list_all")]

    async def replace(self, trigger: Trigger, revision: int) -> bool:
        return await self._changes(
            "replace",
            *(trigger.name, revision, _write(trigger.definition), trigger.paused),
            *(trigger.cursor, trigger.next_at, _write(trigger.owner)),
        )

    async def remove(self, name: str) -> bool:
        return await self._changes("remove", name)

    async def on_finished(self) -> Sequence[Trigger]:
        return [_trigger(row) for row in await self._fetch("on_finished")]

    async def due(self, now: float) -> Sequence[Trigger]:
        return [_trigger(row) for row in await self._fetch("due", now)]

    async def plan(self, name: str, revision: int, due: Due) -> bool:
        pending = _write(due.slots)
        return await self._changes(
            "plan", name, revision, pending, due.cursor, due.next_at
        )

    async def settle(
        self, name: str, revision: int, slot: float, execution_id: str
    ) -> bool:
        return await self._changes("settle", name, revision, slot, execution_id)

    async def add_backfill(self, backfill: Backfill) -> bool:
        return await self._changes(
            "add_backfill",
            *(backfill.backfill_id, backfill.trigger, backfill.since, backfill.until),
            *(backfill.at_once, backfill.total, _write(backfill.progress)),
            *(backfill.created_at, backfill.created_by, backfill.state),
            backfill.revision,
        )

    async def get_backfill(self, backfill_id: str) -> Backfill | None:
        for row in await self._fetch("get_backfill", backfill_id):
            return _backfill(row)
        return None

    async def list_backfills(self, trigger: str | None = None) -> Sequence[Backfill]:
        if trigger is None:
            rows = await self._fetch("list_backfills")
        else:
            rows = await self._fetch("list_backfills_of", trigger)
        return [_backfill(row) for row in rows]

    async def open_backfills(self) -> Sequence[Backfill]:
        return [_backfill(row) for row in await self._fetch("open_backfills")]

    async def move(
        self, backfill_id: str, revision: int, state: State, progress: Progress
    ) -> bool:
        is_open = state == "running" or bool(progress.flights)
        return await self._changes(
            "move", backfill_id, revision, state, _write(progress), is_open
        )

    async def _changes(self, query: str, *values: Any) -> bool:
        return bool(await self._fetch(query, *values))

    async def _fetch(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return await self._database.fetch(_SQL[query], *values)


def _write(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _trigger(row: tuple[Any, ...]) -> Trigger:
    _, definition, created_at, created_by, credential, paused, *rest = row
    cursor, next_at, pending, last_slot, last_execution, revision, _, owner = rest
    return Trigger(
        definition=msgspec.json.decode(definition, type=Definition),
        created_at=created_at,
        created_by=created_by,
        credential=credential,
        paused=bool(paused),
        cursor=cursor,
        next_at=next_at,
        pending=msgspec.json.decode(pending, type=tuple[float, ...]),
        last_slot=last_slot,
        last_execution=last_execution,
        revision=revision,
        owner=msgspec.json.decode(owner or "null", type=Initiator | None),
    )


def _backfill(row: tuple[Any, ...]) -> Backfill:
    fields = dict(zip(_BACKFILL, row, strict=False))
    progress = msgspec.json.decode(fields["progress"], type=Progress)
    return Backfill(**{**fields, "progress": progress})
