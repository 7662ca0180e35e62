"""COPY at work: rows and CSV into a table, and out of one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, BinaryIO

from noetl.adapters.files import Roots
from noetl.adapters.tools.pg.bulk import (
    CHUNK,
    CopyIn,
    CopyOut,
    columns_of,
    encode_rows,
    select,
)
from noetl.adapters.tools.pg.rows import Budget, count_of, result
from noetl.errors import ToolError
from noetl.types import JSON

_BOM = b"\xef\xbb\xbf"


async def load(connection: Any, copy: CopyIn, roots: Roots) -> dict[str, JSON]:
    """Fill the table; all rows or none."""
    if copy.path is None:
        return await load_from(connection, copy, None)
    file = await asyncio.to_thread(roots.open_file, copy.path, "copy_from.path")
    with file:
        return await load_from(connection, copy, file)


async def load_from(
    connection: Any, copy: CopyIn, file: BinaryIO | None
) -> dict[str, JSON]:
    source: AsyncIterator[bytes]
    if copy.rows is not None:
        named = columns_of(copy)
        # Also tells which columns there are, and which of them are arrays.
        prepared = await connection.prepare(select(copy.table, named), name="")
        attributes = prepared.get_attributes()
        columns = [each.name for each in attributes]
        kinds = [each.type.kind for each in attributes]
        source = paced(encode_rows(copy, columns, kinds))
        options = {}
    else:
        start = await read_start(copy, file)
        named = columns_of(copy, start[:CHUNK].decode(errors="replace"))
        columns = list(named or ())
        source = read_on(start, file)
        options = csv_options(copy)
    schema, table = copy.table if len(copy.table) == 2 else (None, copy.table[0])
    status = await connection.copy_to_table(
        table, source=source, columns=named, schema_name=schema, **options
    )
    return result([], columns, status, count_of(status))


def csv_options(copy: CopyIn | CopyOut) -> dict[str, Any]:
    dialect = copy.dialect
    return {
        "format": "csv",
        "header": dialect.header,
        "delimiter": dialect.delimiter,
        "null": dialect.null,
    }


async def paced(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
        await asyncio.sleep(0)  # others are waiting, too


async def read_start(copy: CopyIn, file: BinaryIO | None) -> bytes:
    if file is None:
        assert copy.csv is not None
        return copy.csv.encode().removeprefix(_BOM)
    return (await asyncio.to_thread(file.read, CHUNK)).removeprefix(_BOM)


async def read_on(start: bytes, file: BinaryIO | None) -> AsyncIterator[bytes]:
    for at in range(0, len(start), CHUNK):
        yield start[at : at + CHUNK]
    while file is not None and (chunk := await asyncio.to_thread(file.read, CHUNK)):
        yield chunk


async def unload(connection: Any, copy: CopyOut, budget: Budget) -> dict[str, JSON]:
    """The table or query as CSV text."""
    data = bytearray()

    async def keep(chunk: bytes) -> None:
        if len(data) + len(chunk) > budget.most_bytes:
            raise budget.exceeded(f"{budget.most_bytes} bytes", "max_bytes")
        data.extend(chunk)

    prepared = await connection.prepare(copy.select().text, name="")
    columns = [each.name for each in prepared.get_attributes()]
    options = csv_options(copy)
    status = await connection.copy_from_query(
        copy.select().text, output=keep, **options
    )
    count = count_of(status)
    if budget.most_rows is not None and count > budget.most_rows:
        raise budget.exceeded(f"{budget.most_rows} rows", "max_rows")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        message = f"the CSV is not UTF-8 at byte {error.start}: select bytea instead"
        raise ToolError("pg.decode", message) from None
    return {**result([], columns, status, count), "csv": text}
