"""Targets of a transfer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from noetl.adapters.processes.limits import read_timeout
from noetl.adapters.tools.classic.sources import (
    Reach,
    Rows,
    address,
    ask,
    quoted,
    read_rows,
    text,
    unknown,
)
from noetl.engine.tasks.outcome import Outcome
from noetl.errors import ToolError
from noetl.ports import Tool, ToolCall
from noetl.types import JSON

_KNOWN = "postgres, duckdb, file, http"
_IN_MEMORY = 1_000_000


class Target(Protocol):
    async def write(self, rows: Rows) -> None: ...

    async def finish(self) -> None: ...


def open_target(
    side: Mapping[str, JSON],
    call: ToolCall,
    tools: Mapping[str, Tool],
    *,
    replaces: bool,
) -> Target:
    match side["type"]:
        case "postgres":
            return Postgres(side, call, tools, replaces)
        case "duckdb":
            return Duckdb(side, call, tools, replaces)
        case "file":
            return File(side, call, tools, replaces)
        case "http":
            return Http(side, call, tools, replaces)
        case other:
            raise unknown("target", other, _KNOWN)


class Written:
    """Base class of targets."""

    def __init__(
        self,
        side: Mapping[str, JSON],
        call: ToolCall,
        tools: Mapping[str, Tool],
        replaces: bool,
    ) -> None:
        self._side = side
        self._call = call
        self._tools = tools
        self._replaces = replaces

    async def _ask(self, kind: str, **inputs: JSON) -> JSON:
        return await ask(kind, inputs, self._call, self._tools)

    async def finish(self) -> None:
        pass


class Postgres(Written):
    """Writes by COPY, a transaction per chunk; deletes old rows before the first."""

    async def write(self, rows: Rows) -> None:
        table = text(self._side, "target", "table")
        where = address(self._side)
        if self._replaces:
            await self._ask("postgres", command=f"DELETE FROM {quoted(table)}", **where)
            self._replaces = False
        copy = {"table": table, "columns": list(rows[0]), "rows": rows}
        await self._ask("postgres", copy_from=copy, **where)


class Duckdb(Written):
    """Writes to a table, which the first chunk creates if it is missing."""

    async def write(self, rows: Rows) -> None:
        table = quoted(text(self._side, "target", "table"))
        made = f"CREATE TABLE IF NOT EXISTS {table} AS SELECT * FROM chunk LIMIT 0"
        if self._replaces:
            made = f"CREATE OR REPLACE TABLE {table} AS SELECT * FROM chunk LIMIT 0"
            self._replaces = False
        command = f"{made}; INSERT INTO {table} BY NAME SELECT * FROM chunk"
        database = text(self._side, "target", "database")
        tables = {"chunk": rows}
        await self._ask("duckdb", command=command, database=database, tables=tables)


class File(Written):
    """Writes one file atomically; its suffix names the format."""

    def __init__(
        self,
        side: Mapping[str, JSON],
        call: ToolCall,
        tools: Mapping[str, Tool],
        replaces: bool,
    ) -> None:
        super().__init__(side, call, tools, replaces)
        self._rows: Rows = []

    async def write(self, rows: Rows) -> None:
        self._rows += rows
        if len(self._rows) > _IN_MEMORY:
            message = f"a file takes at most {_IN_MEMORY:,} rows; use duckdb's export"
            raise ToolError("tool.contract", message)

    async def finish(self) -> None:
        if not self._rows:
            return
        export = {"path": text(self._side, "target", "path", "uri")}
        if self._side.get("format") is not None:
            export["format"] = str(self._side["format"])
        tables = {"chunk": self._rows}
        await self._ask(
            "duckdb", command="SELECT * FROM chunk", tables=tables, export=export
        )


class Http(Written):
    """Sends each chunk as a JSON list."""

    async def write(self, rows: Rows) -> None:
        inputs: dict[str, JSON] = {"method": "POST", "json": rows}
        for name in ("method", "headers", "params", "auth"):
            if name in self._side:
                inputs[name] = self._side[name]
        url = text(self._side, "target", "url", "endpoint")
        await self._ask("http", url=url, **inputs)


_CHUNK = 1000


class TransferTool:
    """Uses the canonical tools; each chunk is one call of the target's tool."""

    instant = False

    def __init__(self, tools: Mapping[str, Tool], reach: Reach) -> None:
        self._reach = reach
        self._tools = tools

    def has_effect(self, call: ToolCall) -> bool:
        return True

    async def run(self, call: ToolCall) -> Outcome:
        import asyncio

        source, target = side(call, "source"), side(call, "target")
        size = call.inputs.get("chunk_size") or _CHUNK
        names = call.inputs.get("mapping") or {}
        if not isinstance(size, int) or size < 1 or not isinstance(names, Mapping):
            message = "chunk_size must be at least 1, and mapping a mapping"
            raise ToolError("tool.contract", message)
        mode = call.inputs.get("mode") or target.get("mode") or "append"
        if mode not in ("append", "replace"):
            message = f"mode {mode!r:.40} is not append or replace"
            raise ToolError("tool.contract", message)
        seconds = read_timeout(call.spec)
        rows = chunks = 0
        try:
            async with asyncio.timeout(seconds) as limit:
                end = open_target(target, call, self._tools, replaces=mode == "replace")
                found = read_rows(source, call, self._tools, size, self._reach)
                async for chunk in found:
                    await end.write([renamed(row, names) for row in chunk])
                    rows, chunks = rows + len(chunk), chunks + 1
                await end.finish()
        except TimeoutError:
            if not limit.expired():
                raise
            message = f"not done after {seconds:g} s: {rows:,} rows are transferred"
            raise ToolError("timeout", message, retryable=True) from None
        except ToolError as error:
            error.details["rows_transferred"] = rows
            raise
        return Outcome.ok(
            {
                "status": "success",
                "rows_transferred": rows,
                "chunks": chunks,
                "source_type": source["type"],
                "target_type": target["type"],
            }
        )

    async def close(self) -> None:
        pass


def side(call: ToolCall, name: str) -> dict[str, JSON]:
    given = call.inputs.get(name)
    if not isinstance(given, Mapping) or not isinstance(given.get("type"), str):
        message = f"{name} must be a mapping with 'type'"
        raise ToolError("tool.contract", message)
    return dict(given)


def renamed(row: JSON, names: Mapping[str, JSON]) -> JSON:
    """Rename the columns of a row by the mapping. Raises ``ToolError``."""
    if not names or not isinstance(row, Mapping):
        return row
    missing = [str(each) for each in names.values() if each not in row]
    if missing:
        message = f"a row has no {missing[0]!r:.60}, which mapping names"
        raise ToolError("tool.contract", message)
    return {column: row[str(each)] for column, each in names.items()}
