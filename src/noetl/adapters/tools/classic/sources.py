"""Where rows come from."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

from noetl.adapters.files import Files
from noetl.adapters.network import Network
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

_KNOWN = "http, postgres, duckdb, file"
_REQUEST = ("method", "headers", "params", "json", "auth")


class Reach(NamedTuple):
    """What of the host and the network a transfer may reach by itself."""

    files: Files
    network: Network


async def read_rows(
    side: Mapping[str, JSON],
    call: ToolCall,
    tools: Mapping[str, Tool],
    size: int,
    reach: Reach,
) -> AsyncIterator[Rows]:
    """Rows in chunks of at most ``size``; PostgreSQL's are never all in memory."""
    match side["type"]:
        case "postgres":
            async for chunk in _from_postgres(side, size, reach, call):
                yield chunk
            return
        case "http":
            inputs = {name: side[name] for name in _REQUEST if name in side}
            inputs["url"] = text(side, "source", "url", "endpoint")
            found = _inner(await ask("http", inputs, call, tools), side)
        case "duckdb":
            sql = _query(side)
            inputs = {"command": sql, "database": side.get("database")}
            found = (await ask("duckdb", inputs, call, tools))["rows"]
        case "file":
            path = text(side, "source", "path", "uri").replace("'", "''")
            sql = f"SELECT * FROM '{path}'"
            found = (await ask("duckdb", {"command": sql}, call, tools))["rows"]
        case other:
            raise unknown("source", other, _KNOWN)
    for start in range(0, len(found), size):
        yield found[start : start + size]


def _inner(body: JSON, side: Mapping[str, JSON]) -> Rows:
    """The list of rows in an answer, at ``data_path`` if that is given."""
    for part in str(side.get("data_path") or "").split("."):
        if part and isinstance(body, Mapping):
            body = body.get(part)
    if isinstance(body, Mapping):
        body = [body]
    if not isinstance(body, list):
        message = "source gave no list of rows; data_path says where in the answer"
        raise ToolError("tool.contract", message)
    return body


def _query(side: Mapping[str, JSON]) -> str:
    if isinstance(side.get("table"), str):
        return f"SELECT * FROM {quoted(str(side['table']))}"
    return text(side, "source", "query", "command")


async def _from_postgres(
    side: Mapping[str, JSON], size: int, reach: Reach, call: ToolCall
) -> AsyncIterator[Rows]:
    import asyncpg

    from noetl.adapters.tools.pg.address import read_address
    from noetl.adapters.tools.pg.dialer import Dialer
    from noetl.adapters.tools.pg.faults import Place, explain
    from noetl.adapters.tools.pg.rows import Shape

    roots = reach.files.roots(call.folder)
    where, sql = read_address(address(side), roots), _query(side)
    connection: Any = None
    try:
        connection = await Dialer(where, reach.network).connect()
        async with connection.transaction(readonly=True):
            prepared = await connection.prepare(sql)
            shape = Shape(prepared.get_attributes())
            cursor = await prepared.cursor()
            while records := await cursor.fetch(size):
                yield [shape.row(record) for record in records]
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        raise explain(error, where, Place(of_several=False)) from None
    finally:
        if connection is not None:
            await connection.close()
