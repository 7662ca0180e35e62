"""Events inside the compressed rows of a stored log: read, edited and searched by hand.

Edits pass the triggers that protect the log, and leave the hashes as they were. A
search unfolds rows by the dictionary of the store, without code of the product.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import zstandard

from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.batches import Row, pack_batches, unpack_lines

Change = Callable[[int, bytes], bytes | None]
"""Gets position and JSON of an event; returns other JSON, or None to keep it."""

_NUMBER = "(SELECT number FROM execution WHERE execution_id = {})"
_LITE = f"key >> 32 = {_NUMBER.format('?')}"
_LITE_KEY = "key & 4294967295"
_COLUMNS = "hash, events, dictionary, body"
_PG = f"execution = {_NUMBER.format('$1')}"


def row_of(rows: Iterable[Row], seq: int) -> Row:
    """Return the row that holds an event."""
    [found] = [row for row in rows if row.first_seq <= seq <= row.last_seq]
    return found


def event_of(rows: Iterable[Row], execution_id: str, seq: int) -> bytes:
    """Return the JSON of an event."""
    row = row_of(rows, seq)
    return unpack_lines(row, execution_id)[seq - row.first_seq]


def change_rows(rows: Iterable[Row], execution_id: str, change: Change) -> list[Row]:
    """Return the rows that a change makes different. At least one must be."""
    changed = []
    for row in rows:
        lines = unpack_lines(row, execution_id)
        others = [change(seq, line) for seq, line in enumerate(lines, row.first_seq)]
        edited = [
            line if other is None else other
            for line, other in zip(lines, others, strict=True)
        ]
        if edited != lines:
            [batch] = pack_batches(edited, execution_id)
            changed.append(row._replace(dictionary=batch.dictionary, body=batch.body))
    assert changed, f"nothing in the log of {execution_id} was changed"
    return changed


def only(seq: int, body: bytes) -> Change:
    """Return the change of one event."""
    return lambda place, _: body if place == seq else None


def flipped(body: bytes) -> bytes:
    """Return the bytes with one bit changed, in the middle."""
    middle = len(body) // 2
    return body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :]


class SqliteLog:
    """The log of an execution in a file that a process may have open."""

    def __init__(self, path: Path, execution_id: str) -> None:
        self._path = path
        self._id = execution_id

    def rows(self) -> list[Row]:
        sql = f"SELECT {_LITE_KEY}, {_COLUMNS} FROM batch WHERE {_LITE} ORDER BY key"
        with closing(sqlite3.connect(self._path, timeout=60)) as db:
            return [Row(*row) for row in db.execute(sql, (self._id,))]

    def __len__(self) -> int:
        return self.rows()[-1].last_seq

    def read(self, seq: int) -> bytes:
        return event_of(self.rows(), self._id, seq)

    def write(self, seq: int, body: bytes) -> None:
        self.change(only(seq, body))

    def change(self, change: Change) -> list[Row]:
        """Change events; return the rows that hold them."""
        changed = change_rows(self.rows(), self._id, change)
        sql = f"UPDATE batch SET dictionary = ?, body = ? WHERE {_LITE} "
        sql += f"AND {_LITE_KEY} = ?"
        for row in changed:
            self._edit(sql, row.dictionary, row.body, self._id, row.last_seq)
        return changed

    def cut(self, seq: int) -> None:
        """Take an event out of its row, which counts it no more."""
        row = row_of(self.rows(), seq)
        lines = unpack_lines(row, self._id)
        del lines[seq - row.first_seq]
        [batch] = pack_batches(lines, self._id)
        sql = f"UPDATE batch SET events = ?, body = ? WHERE {_LITE} AND {_LITE_KEY} = ?"
        self._edit(sql, batch.events, batch.body, self._id, row.last_seq)

    def flip(self, seq: int) -> Row:
        """Change one bit of the row that holds an event; return the row as it was."""
        row = row_of(self.rows(), seq)
        sql = f"UPDATE batch SET body = ? WHERE {_LITE} AND {_LITE_KEY} = ?"
        self._edit(sql, flipped(row.body), self._id, row.last_seq)
        return row

    def remove(self, seqs: Iterable[int]) -> None:
        """Remove the rows that hold these events."""
        rows = self.rows()
        sql = f"DELETE FROM batch WHERE {_LITE} AND {_LITE_KEY} = ?"
        for last_seq in {row_of(rows, seq).last_seq for seq in seqs}:
            self._edit(sql, self._id, last_seq)

    def _edit(self, sql: str, *values: Any) -> None:
        name = "batch_is_never_" + ("changed" if "UPDATE" in sql else "removed")
        with closing(sqlite3.connect(self._path, timeout=60)) as db, db:
            db.execute("BEGIN IMMEDIATE")
            found = "SELECT sql FROM sqlite_schema WHERE name = ?"
            [[guard]] = db.execute(found, [name]).fetchall()
            db.execute(f"DROP TRIGGER {name}")
            assert db.execute(sql, values).rowcount == 1
            db.execute(guard)


class PostgresLog:
    """The log of an execution in PostgreSQL, for a connection of a superuser."""

    def __init__(self, database: Postgres, execution_id: str) -> None:
        self._database = database
        self._id = execution_id

    async def rows(self) -> list[Row]:
        sql = f"SELECT last_seq, {_COLUMNS} FROM batch WHERE {_PG} ORDER BY last_seq"
        return [Row(*row) for row in await self._database.fetch(sql, self._id)]

    async def read(self, seq: int) -> bytes:
        return event_of(await self.rows(), self._id, seq)

    async def write(self, seq: int, body: bytes) -> None:
        await self.change(only(seq, body))

    async def change(self, change: Change) -> list[Row]:
        """Change events; return the rows that hold them."""
        changed = change_rows(await self.rows(), self._id, change)
        sql = f"UPDATE batch SET dictionary = $3, body = $4 WHERE {_PG} "
        sql += "AND last_seq = $2"
        for row in changed:
            await self._edit(sql, self._id, row.last_seq, row.dictionary, row.body)
        return changed

    async def flip(self, seq: int) -> Row:
        """Change one bit of the row that holds an event; return the row as it was."""
        row = row_of(await self.rows(), seq)
        sql = f"UPDATE batch SET body = $3 WHERE {_PG} AND last_seq = $2"
        await self._edit(sql, self._id, row.last_seq, flipped(row.body))
        return row

    async def remove(self, seqs: Iterable[int]) -> None:
        """Remove the rows that hold these events."""
        rows = await self.rows()
        sql = f"DELETE FROM batch WHERE {_PG} AND last_seq = $2"
        for last_seq in {row_of(rows, seq).last_seq for seq in seqs}:
            await self._edit(sql, self._id, last_seq)

    async def _edit(self, sql: str, *values: Any) -> None:
        async def work(connection: Any) -> None:
            async with connection.transaction():
                # Triggers are off for this transaction alone.
                await connection.execute("SET LOCAL session_replication_role = replica")
                assert (await connection.execute(sql, *values)).endswith(" 1")

        await self._database.run(work)


# -- searching ------------------------------------------------------------------------

UNFOLDED = (
    "SELECT b.body, d.body FROM {0}batch AS b "
    "LEFT JOIN {0}dictionary AS d ON d.number = b.dictionary"
)
"""Bodies of rows with their dictionaries; ``{0}`` is the schema."""


@cache
def _decompressor(dictionary: bytes) -> zstandard.ZstdDecompressor:
    data = zstandard.ZstdCompressionDict(dictionary)
    return zstandard.ZstdDecompressor(dict_data=data)


def unfold(rows: Iterable[Sequence[bytes]]) -> bytes:
    """Return the events of such rows as they were before compression."""
    return b"\n".join(
        _decompressor(bytes(dictionary)).decompress(bytes(body))
        for body, dictionary in rows
    )


def unfolded_logs(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield names and events of the logs in a folder."""
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix == ".db":
            address = f"file:{path}?mode=ro"
            with closing(sqlite3.connect(address, uri=True, timeout=60)) as db:
                tables = "SELECT 1 FROM sqlite_schema WHERE name = 'batch'"
                if db.execute(tables).fetchone():
                    rows = db.execute(UNFOLDED.format("")).fetchall()
                    yield f"events of {path}", unfold(rows)


def stored_values(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield names and values of the tables in a folder: a page of a file may end within
    a value."""
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix == ".db":
            address = f"file:{path}?mode=ro"
            with closing(sqlite3.connect(address, uri=True, timeout=60)) as db:
                yield f"rows of {path}", b"\n".join(_values(db))


def _values(db: sqlite3.Connection) -> Iterator[bytes]:
    tables = "SELECT name FROM sqlite_schema WHERE type = 'table'"
    for (table,) in db.execute(tables).fetchall():
        for row in db.execute(f'SELECT * FROM "{table}"'):
            for value in row:
                yield value if isinstance(value, bytes) else str(value).encode()


def contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield names and bytes of all files of a folder, the values of its tables, and the
    events of its logs."""
    for path in folder.rglob("*"):
        if path.is_file():
            yield str(path), path.read_bytes()
    yield from stored_values(folder)
    yield from unfolded_logs(folder)
