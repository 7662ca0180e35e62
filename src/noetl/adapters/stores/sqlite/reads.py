"""Queries of readers: logs, listings, commands, and the check of the hash chain."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

from noetl.adapters.stores.batches import Row, first_damage, missing_event, unpack_rows
from noetl.adapters.stores.rules import count_by_pool, idle_of
from noetl.adapters.stores.sqlite.connection import connect_reader, translated
from noetl.adapters.stores.sqlite.schema import SQL
from noetl.adapters.stores.sqlite.transitions import SEQ_BITS, Head
from noetl.adapters.stores.summaries import decode_summary, read_line
from noetl.engine.events import Event
from noetl.engine.state import ExecutionStatus
from noetl.errors import StoreError
from noetl.ports import (
    Backlog,
    CommandRecord,
    CommandRow,
    ConcurrencySlot,
    Damage,
    IdlePage,
    Lease,
    LogHead,
    Parked,
    Records,
    Snapshot,
    Stray,
    Summary,
    Timer,
)

_SEQ = (1 << SEQ_BITS) - 1
_NEWEST = (1 << 63) - 1
_LAST = "\U0010ffff"


def read(
    db: sqlite3.Connection, execution_id: str, after: int, limit: int | None
) -> list[Event]:
    head = _head(db, execution_id)
    if head is None:
        return []
    if limit == 0:
        return []
    with closing(_rows(db, head.number, after)) as rows:
        events = unpack_rows(rows, execution_id, after, limit)
    if after + len(events) < head.last_seq and len(events) != limit:
        raise missing_event(execution_id, after + len(events) + 1)
    return events


def _rows(db: sqlite3.Connection, number: int, after: int = 0) -> Generator[Row]:
    """Yield the rows that end after a position.

    The caller closes the generator: as long as an error keeps an open one, its
    connection sees nothing newer.
    """
    base = number << SEQ_BITS
    for key, *columns in db.execute(SQL["rows"], (base + after, base + _SEQ)):
        yield Row(key & _SEQ, *columns)


def rows(
    db: sqlite3.Connection, execution_id: str, after: int, limit: int
) -> list[Row]:
    """Return the rows that follow a position, as they are stored."""
    head = _head(db, execution_id)
    if head is None:
        return []
    with closing(_rows(db, head.number, after)) as found:
        return [*islice(found, limit)]


def length(db: sqlite3.Connection, execution_id: str) -> int:
    head = _head(db, execution_id)
    return 0 if head is None else head.last_seq


def snapshot(db: sqlite3.Connection, execution_id: str) -> Snapshot | None:
    row = db.execute(SQL["snapshot"], (execution_id,)).fetchone()
    return Snapshot(*row) if row else None


def tally(
    db: sqlite3.Connection, execution_id: str, version: int, at: int | None
) -> Snapshot | None:
    given = (execution_id, version, _SEQ if at is None else at)
    row = db.execute(SQL["tally"], given).fetchone()
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


def oldest_ready(db: sqlite3.Connection) -> dict[str, float]:
    return dict(db.execute(SQL["oldest_ready"]))


def count_commands(db: sqlite3.Connection) -> dict[str, Backlog]:
    return count_by_pool(db.execute(SQL["count_commands"]))


def count_delayed(db: sqlite3.Connection, limit: int) -> dict[str, int]:
    return dict(db.execute(SQL["count_delayed"], (limit,)).fetchall())


def parked(db: sqlite3.Connection, limit: int) -> list[Parked]:
    rows, lines = db.execute(SQL["parked"], (limit,)), Playbooks(db)
    return [
        Parked(read_line(name, text, lines), last_seq) for name, text, last_seq in rows
    ]


class Playbooks(dict[str, str]):
    """The lines of playbooks by their keys, each read once."""

    def __init__(self, db: sqlite3.Connection) -> None:
        super().__init__()
        self._db = db

    def __missing__(self, key: str) -> str:
        row = self._db.execute(SQL["playbook"], (key,)).fetchone()
        if row is None:
            raise KeyError(key)
        return self.setdefault(key, row[0])


def find(
    db: sqlite3.Connection,
    status: ExecutionStatus | None,
    before: str | None,
    limit: int,
    labels: Mapping[str, str],
) -> list[Summary]:
    number = _NEWEST if before is None else _number_before(db, before)
    if labels:
        (first, *others) = labels.items()
        more = json.dumps(dict(others))
        given = (*first, number, status, more, limit)
        rows = db.execute(SQL["find_by_labels"], given)
    elif status is None:
        rows = db.execute(SQL["find"], (number, limit))
    else:
        rows = db.execute(SQL["find_by_status"], (status, number, limit))
    lines = Playbooks(db)
    return [read_line(name, text, lines) for name, text in rows]


def heads(db: sqlite3.Connection, after: int, limit: int) -> list[LogHead]:
    rows, lines = db.execute(SQL["heads"], (after, limit)).fetchall(), Playbooks(db)
    return [
        LogHead(number, last_seq, decode_summary(execution_id, text, lines))
        for number, last_seq, execution_id, text in rows
    ]


def records(db: sqlite3.Connection, execution_id: str) -> Records:
    db.execute("BEGIN")  # all rows in one snapshot
    try:
        return _records(db, execution_id)
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _records(db: sqlite3.Connection, execution_id: str) -> Records:
    row = db.execute(SQL["record"], (execution_id,)).fetchone()
    if row is None:
        raise StoreError(f"there is no execution {execution_id}", "store.missing")
    number, last_seq, status, request_key, text = row
    span = (f"{execution_id}-", f"{execution_id}.")
    place = db.execute(SQL["record_slot"], (number,)).fetchone()
    return Records(
        last_seq,
        status,
        decode_summary(execution_id, text, Playbooks(db)),
        request_key,
        [CommandRecord(*each) for each in db.execute(SQL["record_commands"], span)],
        [
            Timer(execution_id, *each)
            for each in db.execute(SQL["record_timers"], (number,))
        ],
        snapshot(db, execution_id),
        db.execute(SQL["record_tallies"], (number,)).fetchall(),
        ConcurrencySlot(place[0], place[1], bool(place[2])) if place else None,
    )


def strays(db: sqlite3.Connection, limit: int) -> list[Stray]:
    return [Stray(*row) for row in db.execute(SQL["strays"], (limit,))]


def _number_before(db: sqlite3.Connection, execution_id: str) -> int:
    """Return the number that the page must stay below; ids are in order of time."""
    head = _head(db, execution_id)
    if head is not None:
        return head.number
    row = db.execute(SQL["newest_below"], (execution_id,)).fetchone()
    return int(row[0]) + 1 if row else 0


def find_request(db: sqlite3.Connection, request_key: str) -> str | None:
    row = db.execute(SQL["request"], (request_key,)).fetchone()
    return row[0] if row else None


def count_family(db: sqlite3.Connection, execution_id: str, limit: int) -> int:
    (count,) = db.execute(SQL["count_family"], (execution_id, limit)).fetchone()
    return int(count)


def has_open(db: sqlite3.Connection) -> bool:
    return db.execute(SQL["has_open"]).fetchone() is not None


def summary(db: sqlite3.Connection, execution_id: str) -> Summary:
    head = _head(db, execution_id)
    if head is None:
        raise StoreError(f"there is no execution {execution_id}", "store.missing")
    return decode_summary(execution_id, head.summary, Playbooks(db))


def resolve(db: sqlite3.Connection, part: str, limit: int) -> list[str]:
    if _head(db, part):
        return [part]
    rows = db.execute(SQL["resolve"], (part, part + _LAST, limit)).fetchall()
    return [found for (found,) in rows or db.execute(SQL["resolve_end"], (part, limit))]


def verify(db: sqlite3.Connection, execution_id: str) -> Damage | None:
    db.execute("BEGIN")  # position and events in one snapshot
    try:
        head = _head(db, execution_id)
        if head is None:
            message = f"there is no execution {execution_id}"
            raise StoreError(message, "store.missing")
        with closing(_rows(db, head.number)) as rows:
            return first_damage(rows, head.last_seq, head.last_hash, execution_id)
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _head(db: sqlite3.Connection, execution_id: str) -> Head | None:
    row = db.execute(SQL["head"], (execution_id,)).fetchone()
    return Head(*row) if row else None


T = TypeVar("T")
THREADS = 2


class Readers:
    """Connections that are opened when first needed, and then kept."""

    def __init__(self, path: Path, *, threaded: bool) -> None:
        self._path = path
        self._free: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        self._pool = ThreadPoolExecutor(THREADS, "noetl-reader") if threaded else None

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._pool is None:
            return self.run_now(work)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self.run_now, work)

    def run_now(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with translated(self._path):
            try:
                db = self._free.get_nowait()
            except Empty:
                db = connect_reader(self._path)
            try:
                return work(db)
            finally:
                self._free.put(db)

    async def close(self) -> None:
        if self._pool is not None:
            await asyncio.to_thread(self._pool.shutdown)
        self.close_now()

    def close_now(self) -> None:
        while not self._free.empty():
            self._free.get_nowait().close()


def idle(db: sqlite3.Connection, after: int, limit: int) -> IdlePage:
    """Return open executions without any row, and the number to continue after."""
    return idle_of(db.execute(SQL["idle"], (after, limit)).fetchall(), limit)
