"""What readers ask: a log, a listing, whether the log is intact."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from noetl.adapters.stores.chain import Damage, first_damage
from noetl.adapters.stores.encoding import decode, decode_summary, read_line
from noetl.adapters.stores.sqlite.memory import Head
from noetl.adapters.stores.sqlite.queries import SQL
from noetl.adapters.stores.sqlite.transitions import SEQ_BITS
from noetl.engine.events import Event
from noetl.engine.state import ExecutionStatus
from noetl.errors import StoreError
from noetl.ports import CommandRow, Lease, Snapshot, Summary

_SEQ = (1 << SEQ_BITS) - 1
_NEWEST = (1 << 63) - 1
_LAST = "\U0010ffff"


class Position(NamedTuple):
    """An execution's place in the file, the end of its log, its line in a listing."""

    number: int
    last_seq: int
    summary: Summary


def read(
    db: sqlite3.Connection, execution_id: str, after: int, limit: int | None
) -> list[Event]:
    head = _head(db, execution_id)
    if head is None:
        return []
    base = head.number << SEQ_BITS
    span = (base + after, base + _SEQ, -1 if limit is None else limit)
    rows = db.execute(SQL["events"], span).fetchall()
    for seq, (key, _) in enumerate(rows, after + 1):
        if key & _SEQ != seq:
            raise _missing(execution_id, seq)
    if after + len(rows) < head.last_seq and len(rows) != limit:
        raise _missing(execution_id, after + len(rows) + 1)
    return decode([body for _, body in rows], execution_id, after)


def length(db: sqlite3.Connection, execution_id: str) -> int:
    head = _head(db, execution_id)
    return 0 if head is None else head.last_seq


def snapshot(db: sqlite3.Connection, execution_id: str) -> Snapshot | None:
    row = db.execute(SQL["snapshot"], (execution_id,)).fetchone()
    return Snapshot(*row) if row else None


def commands(
    db: sqlite3.Connection, command_ids: Sequence[str]
) -> dict[str, CommandRow]:
    found = {}
    for name in command_ids:
        row = db.execute(SQL["command"], (name,)).fetchone()
        if row is not None:
            execution_id, pool, epoch, owner, held, reported = row
            found[name] = CommandRow.read(
                execution_id, pool, epoch, owner, bool(held), reported
            )
    return found


def held(db: sqlite3.Connection, owner: str) -> list[Lease]:
    return [Lease(*row) for row in sorted(db.execute(SQL["held"], (owner,)))]


def find(
    db: sqlite3.Connection,
    status: ExecutionStatus | None,
    before: str | None,
    limit: int,
) -> list[Summary]:
    number = _NEWEST if before is None else _number_before(db, before)
    if status is None:
        rows = db.execute(SQL["find"], (number, limit))
    else:
        rows = db.execute(SQL["find_by_status"], (status, number, limit))
    return [read_line(*row) for row in rows]


def heads(db: sqlite3.Connection, after: int, limit: int) -> list[Position]:
    return [
        Position(number, last_seq, decode_summary(text))
        for number, last_seq, text in db.execute(SQL["heads"], (after, limit))
    ]


def _number_before(db: sqlite3.Connection, execution_id: str) -> int:
    """The first number that is too large; ids are in the order of time."""
    head = _head(db, execution_id)
    if head is not None:
        return head.number
    row = db.execute(SQL["newest_below"], (execution_id,)).fetchone()
    return int(row[0]) + 1 if row else 0


def find_request(db: sqlite3.Connection, request_key: str) -> str | None:
    row = db.execute(SQL["request"], (request_key,)).fetchone()
    return row[0] if row else None


def has_open(db: sqlite3.Connection) -> bool:
    return db.execute(SQL["has_open"]).fetchone() is not None


def summary(db: sqlite3.Connection, execution_id: str) -> Summary:
    head = _head(db, execution_id)
    if head is None:
        raise StoreError(f"there is no execution {execution_id}", "store.missing")
    return decode_summary(head.summary)


def resolve(db: sqlite3.Connection, beginning: str, limit: int) -> list[str]:
    if _head(db, beginning):
        return [beginning]
    span = (beginning, beginning + _LAST, limit)
    return [found for (found,) in db.execute(SQL["resolve"], span)]


def verify(db: sqlite3.Connection, execution_id: str) -> Damage | None:
    db.execute("BEGIN")  # the position and the events of one moment
    try:
        head = _head(db, execution_id)
        if head is None:
            message = f"there is no execution {execution_id}"
            raise StoreError(message, "store.missing")
        base = head.number << SEQ_BITS
        rows = db.execute(SQL["links"], (base, base + _SEQ))
        links = ((key & _SEQ, stored, body) for key, stored, body in rows)
        return first_damage(links, head.last_seq, head.last_hash)
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _head(db: sqlite3.Connection, execution_id: str) -> Head | None:
    row = db.execute(SQL["head"], (execution_id,)).fetchone()
    return Head(*row) if row else None


def _missing(execution_id: str, seq: int) -> StoreError:
    message = f"execution {execution_id}: event {seq} is missing"
    return StoreError(message, "log.hash_mismatch")
