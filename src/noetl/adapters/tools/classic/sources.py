"""Sources of a transfer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from noetl.adapters.files import Files
from noetl.adapters.network import Network
from noetl.adapters.tools.classic.shaped import renamed
from noetl.errors import ToolError
from noetl.ports import Tool, ToolCall
from noetl.types import JSON

Rows = list[dict[str, JSON]]


async def ask(
    kind: str, inputs: dict[str, JSON], call: ToolCall, tools: Mapping[str, Tool]
) -> JSON:
    """Run another tool on behalf of a call, and return its result."""
    made = replace(call, kind=kind, inputs=inputs, spec={}, drafts=None)
    return (await tools[kind].run(made)).result


def address(side: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return ``auth`` or ``dsn`` of a database."""
    if side.get("dsn") is not None:
        return {"dsn": side["dsn"]}
    auth = side.get("auth")
    if isinstance(auth, Mapping):
        auth = renamed(auth)
    return {"auth": auth}


def text(side: Mapping[str, JSON], where: str, *names: str) -> str:
    """Return the first of these members that exists. Raises ``ToolError``."""
    for name in names:
        value = side.get(name)
        if isinstance(value, str) and value:
            return value
    wanted = " or ".join(names)
    raise ToolError("tool.contract", f"{where} of type {side['type']} needs {wanted}")


def quoted(name: str) -> str:
    """Quote a table's name, with or without a schema."""
    parts = (part.replace('"', '""') for part in name.split("."))
    return ".".join(f'"{part}"' for part in parts)


def unknown(where: str, kind: JSON, known: str) -> ToolError:
    return ToolError(
        "tool.contract", f"{where}.type is {kind!r:.40}, not one of {known}"
    )


_KNOWN = "http, postgres, duckdb, file"
_REQUEST = ("method", "headers", "params", "json", "auth")


class Reach(NamedTuple):
    """Files and network that a transfer may use."""

    files: Files
    network: Network


async def read_rows(
    side: Mapping[str, JSON],
    call: ToolCall,
    tools: Mapping[str, Tool],
    size: int,
    reach: Reach,
) -> AsyncIterator[Rows]:
    """Yield rows in chunks of at most ``size``; those of PostgreSQL are streamed."""
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
    """Return the list of rows in an answer, at ``data_path`` if given."""
    for part in str(side.get("data_path") or "").split("."):
        if part and isinstance(body, Mapping):
            body = body.get(part)
    if isinstance(body, Mapping):
        body = [body]
    if not isinstance(body, list):
        message = "source returned no list of rows; set data_path to its path"
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

    from noetl.adapters.tools.postgres.connections import Dialer
    from noetl.adapters.tools.postgres.dsn import read_address
    from noetl.adapters.tools.postgres.errors import Place, explain
    from noetl.adapters.tools.postgres.rows import Shape

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
