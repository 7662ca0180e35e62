"""Task logs as rows of PostgreSQL, within reach of every server of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from itertools import groupby
from typing import Any

import asyncpg
import msgspec

from noetl.adapters.postgres import Postgres
from noetl.errors import StoreError
from noetl.ports.task_logs import (
    ALL,
    LogChunk,
    LogFilter,
    LogSource,
    LogText,
    StoredChunk,
)

TRIES = 50
"""Attempts to append while other servers append to the log of the same execution."""

# A number that another server has just given violates the primary key: the statement
# waits for that server's commit, fails, and is tried again with the next number.
_APPEND = """
INSERT INTO task_log (execution, number, command_id, epoch, step, task, task_run_id,
  attempt, part, body)
SELECT x.number, coalesce((SELECT max(l.number) FROM task_log AS l
    WHERE l.execution = x.number), 0) + c.nth,
  c.command_id, c.epoch, c.step, c.task, c.task_run_id, c.attempt, c.part, c.body
FROM execution AS x, unnest($2::text[], $3::integer[], $4::text[], $5::text[],
  $6::text[], $7::integer[], $8::integer[], $9::bytea[]) WITH ORDINALITY
  AS c(command_id, epoch, step, task, task_run_id, attempt, part, body, nth)
WHERE x.execution_id = $1
ON CONFLICT (execution, task_run_id, attempt, epoch, part) DO NOTHING
"""
_READ = """
SELECT l.number, l.step, l.command_id, l.task, l.task_run_id, l.attempt, l.epoch,
  l.part, l.body
FROM task_log AS l JOIN execution AS x ON x.number = l.execution
WHERE x.execution_id = $1 AND l.number > $2
  AND ($4::text IS NULL OR l.step = $4) AND ($5::text IS NULL OR l.task = $5)
  AND ($6::text IS NULL OR l.command_id LIKE '%/' || $6
    OR l.command_id LIKE '%-%/' || $6 || '/%')
  AND ($7::integer IS NULL OR l.attempt = $7)
  AND ($8::text IS NULL OR l.task_run_id = $8)
ORDER BY l.number LIMIT $3
"""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[LogText]).decode


class PostgresTaskLogs:
    """Rows in the schema of the event log, whose migration makes their table."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._appending = asyncio.Lock()

    async def append(self, chunks: Sequence[LogChunk]) -> None:
        ordered = sorted(chunks, key=lambda each: each.source.execution_id)
        groups = groupby(ordered, key=lambda each: each.source.execution_id)
        async with self._appending:
            for execution_id, found in groups:
                await self._append(execution_id, list(found))

    async def _append(self, execution_id: str, chunks: Sequence[LogChunk]) -> None:
        columns = zip(*map(_row, chunks), strict=True)
        values = (execution_id, *map(list, columns))
        for attempt in range(1, TRIES + 1):
            try:
                await self._postgres.fetch(_APPEND, *values)
                return
            except StoreError as error:
                taken = isinstance(error.__cause__, asyncpg.UniqueViolationError)
                if not taken or attempt == TRIES:
                    raise

    async def read(
        self,
        execution_id: str,
        *,
        start: int = 0,
        limit: int = 16,
        only: LogFilter = ALL,
    ) -> tuple[Sequence[StoredChunk], int]:
        selected = (only.step, only.task, only.iteration, only.attempt)
        rows = await self._postgres.fetch(
            _READ, execution_id, start, limit, *selected, only.task_run_id
        )
        found = [_stored(execution_id, row) for row in rows]
        wanted = [each for each in found if only.selects(each.chunk.source)]
        return wanted, found[-1].following if found else start

    async def remove(self, execution_ids: Collection[str]) -> None:
        """Do nothing: the removal of an execution removes its rows."""


def _row(chunk: LogChunk) -> tuple[Any, ...]:
    source = chunk.source
    return (
        source.command_id,
        source.epoch,
        source.step,
        source.task,
        source.task_run_id,
        source.attempt,
        chunk.part,
        _encode(chunk.texts),
    )


def _stored(execution_id: str, row: tuple[Any, ...]) -> StoredChunk:
    number, step, command_id, task, task_run_id, attempt, epoch, part, body = row
    source = LogSource(
        execution_id, step, command_id, task, task_run_id, attempt, epoch
    )
    # Positions are those before the chunk: the first chunk begins at 0.
    return StoredChunk(number - 1, number, LogChunk(source, part, _decode(body)))
