"""Copy of the log in a DuckDB file, made for one query and removed after it."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from noetl.adapters.analytics.tables import (
    EVENTS,
    EXECUTIONS,
    FILL_RESULTS,
    TABLES,
    Table,
    event_lines,
    execution_line,
)
from noetl.adapters.tools.duckdb.temp_dirs import Bench
from noetl.errors import ConfigError
from noetl.extras import install_command
from noetl.ports import LocalStore

if TYPE_CHECKING:
    import duckdb

MEMORY = 1024**3
THREADS = 4
CHUNK = 16 * 1024**2
"""Bytes of JSON that are collected before they are inserted."""

_MIN_VERSION = 2
_MAX_LINE_BYTES = 16 * 1024**2


class Warehouse:
    """DuckDB file that is filled from logs, then queried. Logs are only read."""

    def __init__(self, home: Path) -> None:
        require_duckdb()
        self._bench = Bench(str(home))
        self._scratch = self._bench.scratch()
        self._pending: dict[str, list[bytes]] = {"executions": [], "events": []}
        self._size = 0
        self._filling: duckdb.DuckDBPyConnection | None = None

    def __enter__(self) -> Self:
        os.makedirs(self._scratch.path, mode=0o700)
        self._filling = self.connect(read_only=False)
        for name, table in TABLES.items():
            columns = (
                f'"{key}" {column.type}' for key, column in table.columns.items()
            )
            self._filling.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._filling is not None:
            self._filling.close()
        self._scratch.remove()
        self._bench.close()

    def connect(self, *, read_only: bool) -> duckdb.DuckDBPyConnection:
        """Connect to the file with limits for memory and threads."""
        from noetl.adapters.tools.duckdb.noetl_duck.session import connect

        connection = connect(
            {
                "database": os.path.join(self._scratch.path, "log.duckdb"),
                "read_only": read_only,
                "memory": MEMORY,
                "threads": min(os.cpu_count() or 1, THREADS),
                "scratch": os.path.join(self._scratch.path, "spilled"),
            }
        )
        connection.execute("SET TimeZone = 'UTC'")
        return connection

    async def add(
        self, store: LocalStore, execution_id: str | None = None, *, events: bool
    ) -> None:
        """Copy a log, or one execution of it.

        A running execution is copied up to the last event that its summary counts.
        """
        after = 0
        while heads := await store.heads(after=after):
            for head in heads:
                found = head.summary.execution_id
                if execution_id not in (None, found):
                    continue
                self._put("executions", execution_line(head.summary, head.last_seq))
                if events:
                    async for lines in event_lines(store, found, head.last_seq):
                        self._put("events", lines)
            after = heads[-1].number
        self._flush()

    def add_parquet(self, table: str, file: str) -> None:
        """Copy a file that has the columns of a table."""
        from noetl.adapters.tools.duckdb.noetl_duck.errors import literal

        assert self._filling is not None
        with interruptible():
            rows = f"SELECT * FROM read_parquet({literal(file)})"
            self._filling.execute(f"INSERT INTO {table} BY NAME {rows}")

    def seal(self, *, results: bool = False) -> None:
        """End the filling; the file is only read from here on.

        ``results`` says whether to fill the table of results from the events.
        """
        assert self._filling is not None
        if results:
            with interruptible():
                self._filling.execute(FILL_RESULTS)
        self._filling.close()
        self._filling = None

    def _put(self, table: str, lines: bytes) -> None:
        self._pending[table].append(lines)
        self._size += len(lines)
        if self._size > CHUNK:
            self._flush()

    def _flush(self) -> None:
        assert self._filling is not None
        for name, table in (("executions", EXECUTIONS), ("events", EVENTS)):
            if self._pending[name]:
                file = self._scratch.write(b"".join(self._pending[name]))
                with interruptible():
                    insert = f"INSERT INTO {name} FROM {reader_of(file, table)}"
                    self._filling.execute(insert)
                os.unlink(file)
                self._pending[name].clear()
        self._size = 0


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` for the error that DuckDB raises on Ctrl-C."""
    try:
        yield
    except RuntimeError as error:
        if "interrupted" in str(error):
            raise KeyboardInterrupt from None
        raise


def reader_of(file: str, table: Table) -> str:
    """Return SQL that reads lines of JSON as rows of a table."""
    from noetl.adapters.tools.duckdb.noetl_duck.errors import literal, name

    columns = ", ".join(f"{name(k)}: '{c.type}'" for k, c in table.columns.items())
    return (
        f"read_json({literal(file)}, format = 'newline_delimited', "
        f"maximum_object_size = {_MAX_LINE_BYTES}, columns = {{{columns}}})"
    )


def require_duckdb() -> None:
    """Raise ``ConfigError`` with a hint if DuckDB is missing or too old."""
    try:
        version = importlib.metadata.version("duckdb")
    except importlib.metadata.PackageNotFoundError:
        version = ""
    if not version or int(version.partition(".")[0]) < _MIN_VERSION:
        found = f", and not {version}" if version else ", which is not installed"
        raise ConfigError(
            f"this needs the package duckdb, version {_MIN_VERSION} or newer{found}; "
            f"run: {install_command('duckdb')}"
        )


def write_parquet(warehouse: Warehouse, part: str, name: str) -> int:
    """Write all events to ``part`` and return their number.

    ``name`` is the name of the finished file, for messages.
    """
    import duckdb

    from noetl.adapters.tools.duckdb.noetl_duck.errors import literal

    warehouse.seal()
    with warehouse.connect(read_only=True) as connection:
        target = f"{literal(part)} (FORMAT parquet, COMPRESSION zstd)"
        try:
            # DuckDB keeps the order of insertion, which is that of the log.
            with interruptible():
                done = connection.execute(f"COPY events TO {target}")
        except duckdb.IOException as error:
            why = str(error).rpartition(": ")[2].partition('"')[0]  # may be JSON
            raise ConfigError(f"{name}: cannot be written: {why}") from None
        ((count,),) = done.fetchall()
        return int(count)
