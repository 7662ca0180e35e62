"""Removal of finished executions from a SQLite file."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from noetl.adapters.stores.sqlite import reads
from noetl.adapters.stores.sqlite.connection import Lock, connect_writer, translated
from noetl.adapters.stores.sqlite.reads import Playbooks
from noetl.adapters.stores.sqlite.schema import SQL
from noetl.adapters.stores.sqlite.transitions import SEQ_BITS, run
from noetl.adapters.stores.summaries import (
    durations_in,
    encode_summary,
    read_line,
)
from noetl.errors import StoreError
from noetl.ports import Family, LogHead, Removal, Summary
from noetl.ports.retention import MAX_MEMBERS, LogRow, Refused

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Removal).decode
_BYTES_OF_EXECUTION = 16 * 1024
"""Approximate bytes of pages that the removal of one execution changes."""


class Reading(Protocol):
    def __call__(self, work: Work[T]) -> Awaitable[T]: ...


class Writing(Protocol):
    def __call__(self, work: Work[T], *, size: int = 0) -> Awaitable[T]: ...


class SqliteRetention:
    """``remove`` removes executions within the transaction of its caller. Freed pages
    are used again by new executions; the file keeps its size."""

    def __init__(
        self,
        read: Reading,
        write: Writing,
        remove: Callable[[sqlite3.Connection, Sequence[str]], None],
    ) -> None:
        self._read = read
        self._write = write
        self._remove = remove

    async def families(self, *, after: int = 0, limit: int = 200) -> Sequence[Family]:
        return await self._read(lambda db: _families(db, after, limit))

    async def kin(self, root: int, *, before: int, limit: int = MAX_MEMBERS) -> Family:
        return await self._read(lambda db: _kin(db, root, before, limit))

    async def own_durations(self) -> Sequence[str]:
        rows = await self._read(lambda db: db.execute(SQL["own_retention"]).fetchall())
        return durations_in([body for (body,) in rows])

    async def rows(
        self, execution_id: str, *, after: int, limit: int
    ) -> Sequence[LogRow]:
        found = await self._read(lambda db: reads.rows(db, execution_id, after, limit))
        return [LogRow(*row) for row in found]

    async def take_turn(
        self, owner: str, *, now: float, ttl: float
    ) -> Removal | Refused | None:
        def take(db: sqlite3.Connection) -> list[Any]:
            given = (owner, now + ttl, now)
            return db.execute(SQL["take_retention"], given).fetchall()

        rows = await self._write(take)
        if not rows:
            return Refused()
        return None if rows[0][0] is None else _decode(rows[0][0])

    async def plan(self, owner: str, removal: Removal | None) -> None:
        text = None if removal is None else _encode(removal).decode()
        await self._write(lambda db: _plan(db, owner, text))

    async def carry_out(self, owner: str, removal: Removal) -> None:
        def work(db: sqlite3.Connection) -> None:
            if not db.execute(SQL["has_turn"], (owner,)).fetchone():
                raise _lost_turn()
            names = removal.execution_ids
            if any(db.execute(SQL["head"], (name,)).fetchone() for name in names):
                self._remove(db, names)

        count = len(removal.execution_ids)
        await self._write(work, size=count * _BYTES_OF_EXECUTION)

    async def free_space(self) -> int:
        return 0

    async def restore(
        self, summary: Summary, rows: Sequence[LogRow], request_key: str | None
    ) -> None:
        """Store a finished execution as it was: the rows of its whole log, with their
        hashes. Raises ``StoreError`` (``store.conflict``) if it is there."""
        size = sum(len(row.body) for row in rows)
        await self._write(
            lambda db: _restore(db, summary, rows, request_key), size=size
        )


def _families(db: sqlite3.Connection, after: int, limit: int) -> list[Family]:
    found = []
    for root in db.execute(SQL["roots"], (after, limit)).fetchall():
        number = root[0]
        kin = _kin(db, number, (1 << 63) - 1, MAX_MEMBERS)
        held = kin.held or _is_held(db, number, number)
        members = [*kin.members, *_heads(db, [root])]
        found.append(Family(number, members, held, kin.more))
    return found


def _kin(db: sqlite3.Connection, root: int, before: int, limit: int) -> Family:
    rows = db.execute(SQL["kin"], (root, before, limit + 1)).fetchall()
    some = rows[:limit]
    held = any(_is_held(db, row[0], root) for row in some)
    return Family(root, _heads(db, some), held, len(rows) > limit)


def _is_held(db: sqlite3.Connection, number: int, root: int) -> bool:
    (held,) = db.execute(SQL["is_held"], (number, root)).fetchone()
    return bool(held)


def _heads(db: sqlite3.Connection, rows: Sequence[Any]) -> list[LogHead]:
    lines = Playbooks(db)
    return [
        LogHead(number, last_seq, read_line(name, text, lines))
        for number, last_seq, name, text in rows
    ]


def _plan(db: sqlite3.Connection, owner: str, text: str | None) -> None:
    if not db.execute(SQL["plan_removal"], (owner, text)).rowcount:
        raise _lost_turn()


def _lost_turn() -> StoreError:
    message = "another process removes old executions now"
    return StoreError(message, "store.conflict")


def _restore(
    db: sqlite3.Connection,
    summary: Summary,
    rows: Sequence[LogRow],
    request_key: str | None,
) -> None:
    name, last = summary.execution_id, rows[-1]
    if db.execute(SQL["head"], (name,)).fetchone():
        raise StoreError(f"execution {name} is here already", "store.conflict")
    text, key, line = encode_summary(summary)
    if key is not None:
        db.execute(SQL["keep_playbook"], (key, line))
    (family,) = db.execute(SQL["family"], (summary.parent_id,)).fetchone() or (None,)
    given = (name, summary.status, text, request_key, family)
    number = db.execute(SQL["begin_execution"], given).lastrowid
    assert number is not None
    first = number << SEQ_BITS
    for row in rows:
        kept = (first + row.last_seq, row.hash, row.events, row.dictionary, row.body)
        if row.dictionary is None:  # a row of an older version
            db.execute(SQL["restore_event"], (kept[0], row.hash, row.body))
        else:
            run(db, SQL["append"], [kept])
    db.execute(SQL["advance"], (last.last_seq, last.hash, number))


FREE = 0.25
"""Part of a file that must be free before it is written anew."""


def compact(path: Path) -> int:
    """Give the free pages of a file back to the file system; return the bytes.

    The file is written anew, so nothing is done while it is in use, if little of it is
    free, or if the disk has no room for a copy. Raises ``StoreError``.
    """
    with translated(path), ExitStack() as undo:
        lock = Lock(path)
        undo.callback(lock.release)
        db = connect_writer(path)
        undo.callback(db.close)
        size, free, page = (
            int(db.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        room = shutil.disk_usage(path.parent).free
        if free < size * FREE or room < 2 * (size - free) * page:
            return 0
        db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        (left,) = db.execute("PRAGMA page_count").fetchone()
        return (size - int(left)) * page
