"""Where rows go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from noetl.adapters.tools.classic.sides import (
    Rows,
    address,
    ask,
    quoted,
    text,
    unknown,
)
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
    """The side and the tools of every target."""

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
    """Rows by COPY, each chunk in a transaction; older ones go with the first."""

    async def write(self, rows: Rows) -> None:
        table = text(self._side, "target", "table")
        where = address(self._side)
        if self._replaces:
            await self._ask("postgres", command=f"DELETE FROM {quoted(table)}", **where)
            self._replaces = False
        copy = {"table": table, "columns": list(rows[0]), "rows": rows}
        await self._ask("postgres", copy_from=copy, **where)


class Duckdb(Written):
    """A table that is made by the first chunk, if it is not there."""

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
    """One file, whole or not there; its ending says the format."""

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
    """Each chunk as a JSON list."""

    async def write(self, rows: Rows) -> None:
        inputs: dict[str, JSON] = {"method": "POST", "json": rows}
        for name in ("method", "headers", "params", "auth"):
            if name in self._side:
                inputs[name] = self._side[name]
        url = text(self._side, "target", "url", "endpoint")
        await self._ask("http", url=url, **inputs)
