"""A copy of the log in a DuckDB file, made for one question and removed after it."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from noetl.adapters.analytics.lines import event_lines, execution_line
from noetl.adapters.analytics.tables import (
    EVENTS,
    EXECUTIONS,
    FILL_RESULTS,
    TABLES,
    Table,
)
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.tools.duck.scratch import Bench
from noetl.errors import ConfigError

if TYPE_CHECKING:
    import duckdb

MEMORY = 1024**3
THREADS = 4
CHUNK = 16 * 1024**2
"""Bytes of JSON that wait on the disk before they are taken into the file."""

_OLDEST = 2
_LONGEST = 16 * 1024**2


class Warehouse:
    """Filled with what it is given, then asked. The live logs are only read."""

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
        """A connection to the file, with our limits."""
        from noetl.adapters.tools.duck.noetl_duck.session import connect

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
        self, store: SqliteStore, execution_id: str | None = None, *, events: bool
    ) -> None:
        """Take what a log holds at this moment: all of it, or one execution.

        Of an execution that runs, the events are those that it counts as its own.
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

    def seal(self, *, results: bool = False) -> None:
        """Nothing more comes: from here on it is only read.

        ``results`` are found in the events, where they are asked for.
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
                    insert = f"INSERT INTO {name} FROM {_reader(file, table)}"
                    self._filling.execute(insert)
                os.unlink(file)
                self._pending[name].clear()
        self._size = 0


@contextmanager
def interruptible() -> Iterator[None]:
    """DuckDB notices Ctrl-C itself, and calls it something else."""
    try:
        yield
    except RuntimeError as error:
        if "interrupted" in str(error):
            raise KeyboardInterrupt from None
        raise


def _reader(file: str, table: Table) -> str:
    from noetl.adapters.tools.duck.noetl_duck.quoting import literal, name

    columns = ", ".join(f"{name(k)}: '{c.type}'" for k, c in table.columns.items())
    return (
        f"read_json({literal(file)}, format = 'newline_delimited', "
        f"maximum_object_size = {_LONGEST}, columns = {{{columns}}})"
    )


def require_duckdb() -> None:
    """Raises ``ConfigError`` that says how to get it."""
    try:
        version = importlib.metadata.version("duckdb")
    except importlib.metadata.PackageNotFoundError:
        version = ""
    if not version or int(version.partition(".")[0]) < _OLDEST:
        found = f", and not {version}" if version else ", which is not installed"
        raise ConfigError(
            f"this needs the package duckdb, version {_OLDEST} or newer{found}; "
            "run: pip install '.[duckdb]' in a checkout of NoETL"
        )
