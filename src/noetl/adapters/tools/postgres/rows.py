"""Run of one statement: its rows are read in batches, up to a limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from noetl.adapters.tools.postgres.errors import Place
from noetl.adapters.tools.postgres.placeholders import bind, values_of, write
from noetl.adapters.tools.postgres.script import Statement
from noetl.adapters.tools.postgres.values import reader_of, unique
from noetl.engine.tasks.outcome import Stored
from noetl.errors import ToolError
from noetl.ports import Draft, Drafts
from noetl.types import JSON

HANDED_OVER = 1024 * 1024
"""Maximum bytes of a result, as JSON, whose rows are part of the answer."""

_FIRST = 2  # rows: one row takes one round trip, and huge rows do not add up
_BATCH = 1024 * 1024
_MAX_ROWS = 1000
_TAGS = {"VALUES": "SELECT", "TABLE": "SELECT", "INSERT": "INSERT 0"}
_BARE = frozenset({"SHOW", "EXPLAIN", "CALL"})
_encoder = msgspec.json.Encoder()


class Shape:
    """Columns of a result: a name and a reader for each."""

    def __init__(self, attributes: Sequence[Any]) -> None:
        self.columns = unique([each.name for each in attributes])
        self._readers = [reader_of(each.type.name) for each in attributes]

    def row(self, record: Any) -> dict[str, JSON]:
        triples = zip(self.columns, self._readers, record, strict=True)
        return {name: read(value) for name, read, value in triples}


class Budget(msgspec.Struct):
    """Limits of all rows of a call, as JSON; ``drafts`` stores large results."""

    most_rows: int | None
    most_bytes: int
    drafts: Drafts | None = None
    rows: int = 0
    size: int = 0
    largest: int = 1

    def take(self, row: JSON) -> None:
        size = len(_encoder.encode(row))
        self.rows += 1
        self.size += size
        self.largest = max(self.largest, size)
        if self.size > self.most_bytes:
            raise self.exceeded(f"{self.most_bytes} bytes", "max_bytes")
        if self.most_rows is not None and self.rows > self.most_rows:
            raise self.exceeded(f"{self.most_rows} rows", "max_rows")

    def exceeded(self, limit: str, knob: str) -> ToolError:
        message = (
            f"the result has more than {limit} (spec.{knob}): select fewer columns, "
            f"page with LIMIT and a key, aggregate in SQL, or raise spec.{knob}"
        )
        return ToolError("pg.too_large", message)

    def next_batch(self, size: int) -> int:
        """Return the next batch size by the largest row so far, at most doubled."""
        return max(1, min(_BATCH // self.largest, size * 2, _MAX_ROWS))


async def run_statement(
    connection: Any, statement: Statement, params: JSON, budget: Budget, place: Place
) -> dict[str, JSON]:
    """Run a statement and return ``{rows, columns, rowcount, status}``.

    ``place`` is updated for errors.
    """
    place.statement, place.written = statement, write(statement, {})
    prepared = await connection.prepare(place.written.sql, name="")
    types = prepared.get_parameters()
    bound = list(map(bind, values_of(statement, params), types))
    casts = {at: cast for at, (_, cast) in enumerate(bound, 1) if cast is not None}
    if casts:
        place.written = write(statement, casts)
        prepared = await connection.prepare(place.written.sql, name="")
    arguments = [value for value, _ in bound]
    shape = Shape(prepared.get_attributes())
    columns = shape.columns
    if not columns or statement.verb == "CALL":  # a procedure may end transactions
        records = await prepared.fetch(*arguments)
        status = prepared.get_statusmsg() or ""
        rows = take_all(records, shape, budget)
        return result(rows, columns, status, count_of(status))
    alone = not connection.is_in_transaction()
    if alone:  # a cursor needs one
        await connection.execute("BEGIN")
    collected = Collected(budget.drafts)
    try:
        await read_rows(prepared, arguments, shape, budget, collected)
        found = await collected.finish()
    finally:
        collected.drop()
    if alone:
        await connection.execute("COMMIT")
    count = collected.count
    return result(found, columns, tag(statement, count), count)


class Collected:
    """Rows in memory, or in a draft if they are larger than ``HANDED_OVER``."""

    def __init__(self, drafts: Drafts | None) -> None:
        self._drafts = drafts
        self._draft: Draft | None = None
        self._rows: list[JSON] = []
        self.count = 0

    async def add(self, rows: list[JSON], size: int) -> None:
        """Add rows; ``size`` is the number of bytes of all rows so far."""
        self.count += len(rows)
        self._rows += rows
        if self._drafts is not None and size > HANDED_OVER:
            if self._draft is None:
                self._draft = self._drafts.open()
            await self._draft.add(self._rows)
            self._rows = []

    async def finish(self) -> list[JSON] | Stored:
        return self._rows if self._draft is None else await self._draft.keep()

    def drop(self) -> None:
        if self._draft is not None:
            self._draft.drop()


async def read_rows(
    prepared: Any,
    arguments: Sequence[object],
    shape: Shape,
    budget: Budget,
    rows: Collected,
) -> None:
    cursor = await prepared.cursor(*arguments)
    before, size = budget.size, _FIRST
    while True:
        records = await cursor.fetch(size)
        await rows.add(take_all(records, shape, budget), budget.size - before)
        if len(records) < size:
            return
        size = budget.next_batch(size)


def take_all(records: Sequence[Any], shape: Shape, budget: Budget) -> list[JSON]:
    rows = []
    for record in records:
        row = shape.row(record)
        budget.take(row)
        rows.append(row)
    return rows


def result(
    rows: list[JSON] | Stored, columns: Sequence[str], status: str, count: int
) -> dict[str, JSON]:
    return {"rows": rows, "columns": columns, "rowcount": count, "status": status}


def tag(statement: Statement, count: int) -> str:
    """Return the server's command tag, which a cursor does not report."""
    verb = statement.verb
    return verb if verb in _BARE else f"{_TAGS.get(verb, verb)} {count}"


def count_of(status: str) -> int:
    """Return the row count of ``INSERT 0 3`` or ``COPY 5``, 0 of ``CREATE TABLE``."""
    last = status.rpartition(" ")[2]
    return int(last) if last.isdecimal() else 0
