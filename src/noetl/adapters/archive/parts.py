"""Parquet files of an archive: written from lines of JSON, and read again."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

from noetl.adapters.analytics.duckdb_copy import CHUNK, reader_of, require_duckdb
from noetl.adapters.analytics.tables import EVENTS, EXECUTIONS, Column, Table
from noetl.adapters.stores.batches import Row
from noetl.types import JSON

MEMORY = 256 * 1024**2
THREADS = 1
"""One processor, as the server serves requests at the same time."""
_ROWS = 1_000

LOG = Table(
    "Rows of the log as they were stored: what restoring needs, and verification.",
    {
        "execution_id": Column("VARCHAR", "The execution."),
        "last_seq": Column("BIGINT", "Position of the last event of the row."),
        "events": Column("INTEGER", "Number of its events."),
        "dictionary": Column("INTEGER", "Dictionary by which it is read, or null."),
        "hash": Column("VARCHAR", "Hash of the chain up to it."),
        "body": Column("VARCHAR", "The events, compressed."),
    },
)
TASK_LOGS = Table(
    "What tasks printed, in chunks.",
    {
        "execution_id": Column("VARCHAR", "The execution."),
        "position": Column("BIGINT", "Position of the chunk."),
        "chunk": Column("JSON", "The chunk."),
    },
)
TABLES = {
    "executions": EXECUTIONS,
    "events": EVENTS,
    "log": LOG,
    "task_logs": TASK_LOGS,
}
_BINARY = ("hash", "body")


class Part(NamedTuple):
    """A local Parquet file, and the number of its rows."""

    file: str
    rows: int


class PartWriter:
    """Collects the rows of one batch and writes a file for each table. Its methods may
    run on different threads, one after another."""

    def __init__(self, folder: str) -> None:
        require_duckdb()
        self._folder = folder
        self._pending: dict[str, list[bytes]] = {name: [] for name in TABLES}
        self._size = 0
        self._count = 0

    def __enter__(self) -> Self:
        self._db = connect(self._folder)
        for name, table in TABLES.items():
            columns = (f'"{key}" {each.type}' for key, each in table.columns.items())
            self._db.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._db.close()

    def add(self, table: str, lines: bytes) -> bool:
        """Add lines of JSON; return whether it is time to call ``flush``."""
        self._pending[table].append(lines)
        self._size += len(lines)
        return self._size > CHUNK

    def flush(self) -> None:
        for name, table in TABLES.items():
            if self._pending[name]:
                self._count += 1
                file = os.path.join(self._folder, f"{self._count}.json")
                with open(file, "wb") as opened:
                    opened.writelines(self._pending[name])
                self._db.execute(f"INSERT INTO {name} FROM {reader_of(file, table)}")
                os.unlink(file)
                self._pending[name].clear()
        self._size = 0

    def write(self) -> dict[str, Part]:
        """Write all files; return them by the names of their tables."""
        from noetl.adapters.tools.duckdb.noetl_duck.errors import literal

        self.flush()
        written = {}
        for name, table in TABLES.items():
            file = os.path.join(self._folder, f"{name}.parquet")
            columns = ", ".join(
                f"from_base64({key}) AS {key}" if key in _BINARY else f'"{key}"'
                for key in table.columns
            )
            target = f"{literal(file)} (FORMAT parquet, COMPRESSION zstd)"
            copy = f"COPY (SELECT {columns} FROM {name}) TO {target}"
            [[rows]] = self._db.execute(copy).fetchall()
            written[name] = Part(file, int(rows))
        return written


def row_line(execution_id: str, row: Row) -> bytes:
    """Encode one row of the log."""
    line: dict[str, JSON] = {
        "execution_id": execution_id,
        "last_seq": row.last_seq,
        "events": row.events,
        "dictionary": row.dictionary,
        "hash": b64encode(row.hash).decode(),
        "body": b64encode(row.body).decode(),
    }
    return msgspec.json.encode(line) + b"\n"


def read_rows(
    folder: str, file: str, execution_id: str | None = None
) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a log file in their order, of one execution or of all."""
    wanted = "" if execution_id is None else "WHERE execution_id = ?"
    query = (
        "SELECT execution_id, last_seq, events, dictionary, hash, body "
        f"FROM read_parquet(?) {wanted} ORDER BY execution_id, last_seq"
    )
    given = [file] if execution_id is None else [file, execution_id]
    for name, last_seq, events, dictionary, hash_, body in _select(
        folder, query, given
    ):
        yield name, Row(last_seq, bytes(hash_), events, dictionary, bytes(body))


def read_chunks(folder: str, file: str, execution_id: str) -> Iterator[bytes]:
    """Yield the chunks of a file of task logs, of one execution, in their order."""
    query = (
        "SELECT chunk::VARCHAR FROM read_parquet(?) WHERE execution_id = ? "
        "ORDER BY position"
    )
    for (chunk,) in _select(folder, query, [file, execution_id]):
        yield chunk.encode()


def _select(folder: str, query: str, given: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    with connect(folder) as db:
        cursor = db.execute(query, list(given))
        while rows := cursor.fetchmany(_ROWS):
            yield from rows


def connect(folder: str) -> Any:
    """Connect to a database in memory; ``folder`` is for what does not fit into it."""
    from noetl.adapters.tools.duckdb.noetl_duck.session import connect as open_session

    connection = open_session(
        {
            "database": ":memory:",
            "read_only": False,
            "memory": MEMORY,
            "threads": THREADS,
            "scratch": os.path.join(folder, "spilled"),
        }
    )
    connection.execute("SET TimeZone = 'UTC'")
    return connection
