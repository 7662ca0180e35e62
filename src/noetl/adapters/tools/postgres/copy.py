"""COPY of rows and CSV into a table, and out of one: its inputs, and its run."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import msgspec

from noetl.adapters.files import Roots
from noetl.adapters.tools.postgres.rows import Budget, count_of, result
from noetl.adapters.tools.postgres.script import (
    Statement,
    as_array,
    as_text,
    quote_name,
    scan,
    split,
)
from noetl.errors import ToolError
from noetl.types import JSON

_SOURCES = ("rows", "csv", "path")
_IN = frozenset({"table", "columns", "header", "delimiter", "null", *_SOURCES})
_OUT = frozenset({"table", "columns", "query", "format", "header", "delimiter", "null"})
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
CHUNK = 256 * 1024


class Csv(msgspec.Struct, frozen=True):
    header: bool = True
    delimiter: str = ","
    null: str = ""


class CopyIn(msgspec.Struct, frozen=True, kw_only=True):
    """Rows to load; exactly one of ``rows``, ``csv`` and ``path`` is given."""

    table: tuple[str, ...]
    columns: Sequence[str] | None
    rows: Sequence[JSON] | None = None
    csv: str | None = None
    path: str | None = None
    dialect: Csv


class CopyOut(msgspec.Struct, frozen=True, kw_only=True):
    """Rows to unload; exactly one of ``table`` and ``query`` is given."""

    table: tuple[str, ...] | None
    columns: Sequence[str] | None
    query: Statement | None
    as_rows: bool
    dialect: Csv

    def select(self) -> Statement:
        """Return the statement that selects the rows."""
        if self.query is not None:
            return self.query
        assert self.table is not None
        (statement,) = split(select(self.table, self.columns))
        return statement


def select(table: Sequence[str], columns: Sequence[str] | None) -> str:
    names = "*" if columns is None else ", ".join(map(quote_name, columns))
    return f"SELECT {names} FROM {'.'.join(map(quote_name, table))}"


def read_copy_in(given: JSON) -> CopyIn:
    members = check_members("copy_from", given, _IN)
    sources = [name for name in _SOURCES if members.get(name) is not None]
    if len(sources) != 1:
        raise wrong(f"copy_from needs one of {', '.join(_SOURCES)}")
    source = members[sources[0]]
    if sources[0] == "rows":
        if not isinstance(source, list):
            raise wrong("copy_from.rows must be a list of mappings or lists")
    elif not isinstance(source, str):
        raise wrong(f"copy_from.{sources[0]} must be text")
    return CopyIn(
        table=read_table("copy_from", members.get("table")),
        columns=read_columns("copy_from", members.get("columns")),
        dialect=read_dialect("copy_from", members),
        **{sources[0]: source},
    )


def read_copy_out(given: JSON) -> CopyOut:
    members = check_members("copy_to", given, _OUT)
    table, query = members.get("table"), members.get("query")
    if (table is None) == (query is None):
        raise wrong("copy_to needs either table or query")
    form = members.get("format", "csv")
    if form not in ("csv", "rows"):
        raise wrong(f"copy_to.format: {form!r:.40} is not csv or rows")
    columns = read_columns("copy_to", members.get("columns"))
    if columns is not None and query is not None:
        raise wrong("copy_to.columns needs table; a query names its own columns")
    statement = None
    if query is not None:
        statements = split(query) if isinstance(query, str) else []
        if len(statements) != 1:
            raise wrong("copy_to.query must be one statement")
        statement = statements[0]
        if form == "csv" and statement.placeholders:
            raise wrong("copy_to.query with values needs format: rows")
    return CopyOut(
        table=None if table is None else read_table("copy_to", table),
        columns=columns,
        query=statement,
        as_rows=form == "rows",
        dialect=read_dialect("copy_to", members),
    )


def check_members(where: str, given: JSON, known: frozenset[str]) -> Mapping[str, JSON]:
    if not isinstance(given, Mapping):
        raise wrong(f"{where} must be a mapping")
    unknown = sorted(str(name) for name in given if name not in known)
    if unknown:
        expected = ", ".join(sorted(known))
        raise wrong(f"{where}: unknown '{unknown[0]:.40}' (expected {expected})")
    return given


def read_table(where: str, given: JSON) -> tuple[str, ...]:
    """Parse ``orders``, ``shop.orders`` or ``shop."Orders"`` by the rules of SQL."""
    tokens = list(scan(given)) if isinstance(given, str) else []
    names = tokens[::2]
    if (
        len(tokens) not in (1, 3)
        or any(token.text != "." for token in tokens[1::2])
        or any(token.kind not in ("word", "quoted") for token in names)
    ):
        raise wrong(f"{where}.table must be a name such as orders or shop.orders")
    return tuple(
        token.text[1:-1].replace('""', '"')
        if token.kind == "quoted"
        else token.text.lower()
        for token in names
    )


def read_columns(where: str, given: JSON) -> Sequence[str] | None:
    if given is None:
        return None
    if (
        not isinstance(given, list)
        or not given
        or not all(isinstance(name, str) and name for name in given)
    ):
        raise wrong(f"{where}.columns must be a list of names")
    return given


def read_dialect(where: str, members: Mapping[str, JSON]) -> Csv:
    dialect = Csv(
        members.get("header", True),
        members.get("delimiter", ","),
        members.get("null", ""),
    )
    if not isinstance(dialect.header, bool):
        raise wrong(f"{where}.header must be true or false")
    if not isinstance(dialect.delimiter, str) or len(dialect.delimiter) != 1:
        raise wrong(f"{where}.delimiter must be one character")
    if not isinstance(dialect.null, str):
        raise wrong(f"{where}.null must be text")
    return dialect


def columns_of(copy: CopyIn, start: str = "") -> Sequence[str] | None:
    """Return the given columns, or those of the first row or of the CSV's header.

    None means all columns of the table. ``start`` is the beginning of the CSV.
    """
    if copy.columns is not None:
        return copy.columns
    if copy.rows is not None:
        first = copy.rows[0] if copy.rows else None
        return list(map(str, first)) if isinstance(first, Mapping) else None
    if not copy.dialect.header:
        return None
    text = io.StringIO(start.removeprefix("\ufeff"), newline="")
    try:
        return next(csv.reader(text, delimiter=copy.dialect.delimiter), None)
    except csv.Error as error:
        message = f"copy_from: the first line is not a CSV header: {error}"
        raise wrong(message) from None


def encode_rows(
    copy: CopyIn, columns: Sequence[str], kinds: Sequence[str]
) -> Iterator[bytes]:
    """Yield chunks in COPY's text format; ``kinds`` are those of the columns' types."""
    chunk = bytearray()
    for number, row in enumerate(copy.rows or ()):
        values = row_values(copy, number, row, columns)
        fields = map(encode_field, values, kinds)
        chunk += ("\t".join(fields) + "\n").encode()
        if len(chunk) >= CHUNK:
            yield bytes(chunk)
            chunk.clear()
    if chunk:
        yield bytes(chunk)


def row_values(
    copy: CopyIn, number: int, row: JSON, columns: Sequence[str]
) -> Sequence[JSON]:
    """Return the values in the order of the columns.

    If the columns were given, a row may lack some, or have others.
    """
    if isinstance(row, Mapping):
        if copy.columns is None and row.keys() != set(columns):
            name = sorted(row.keys() ^ set(columns), key=str)[0]
            message = f"copy_from.rows[{number}] and rows[0] differ in '{name}'"
            raise wrong(f"{message}: name the columns")
        return [row.get(name) for name in columns]
    if not isinstance(row, list):
        raise wrong(f"copy_from.rows[{number}] must be a mapping or a list")
    if len(row) != len(columns):
        expected = f"{len(columns)} for {', '.join(columns)[:200]}"
        raise wrong(f"copy_from.rows[{number}] has {len(row)} values, not {expected}")
    return row


def encode_field(value: JSON, kind: str) -> str:
    if value is None:
        return "\\N"
    if isinstance(value, list) and kind == "array":
        value = as_array(value)
    return as_text(value).translate(_ESCAPES)


def wrong(message: str) -> ToolError:
    return ToolError("tool.contract", message)


_BOM = b"\xef\xbb\xbf"


async def load(connection: Any, copy: CopyIn, roots: Roots) -> dict[str, JSON]:
    """Load all rows into the table, or none."""
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
        # Returns the columns of the table, and which of them are arrays.
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
        await asyncio.sleep(0)  # let other tasks run


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
    """Return the table or query as CSV text."""
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
