"""``copy_from`` and ``copy_to``: what they say, and rows as COPY reads them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from noetl.adapters.tools.pg.literals import as_array, as_text, quote_name
from noetl.adapters.tools.pg.script import Statement, split
from noetl.adapters.tools.pg.tokens import scan
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
    """One of ``rows``, ``csv`` and ``path`` is given."""

    table: tuple[str, ...]
    columns: Sequence[str] | None
    rows: Sequence[JSON] | None = None
    csv: str | None = None
    path: str | None = None
    dialect: Csv


class CopyOut(msgspec.Struct, frozen=True, kw_only=True):
    """One of ``table`` and ``query`` is given."""

    table: tuple[str, ...] | None
    columns: Sequence[str] | None
    query: Statement | None
    as_rows: bool
    dialect: Csv

    def select(self) -> Statement:
        """The statement whose rows they are."""
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
        raise wrong("copy_to.columns goes with table; a query names its own")
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
    """``orders``, ``shop.orders`` or ``shop."Orders"``: read as SQL would."""
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
    """The names that are filled: given, or the first row's, or the CSV's first line.

    None leaves them to the table. ``start`` is the beginning of the CSV.
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
        raise wrong(f"copy_from: the first line is no CSV header: {error}") from None


def encode_rows(
    copy: CopyIn, columns: Sequence[str], kinds: Sequence[str]
) -> Iterator[bytes]:
    """Chunks of COPY's text format; ``kinds`` are those of the columns' types."""
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
    """In the order of the columns. With names given, a row may lack or have others."""
    if isinstance(row, Mapping):
        if copy.columns is None and row.keys() != set(columns):
            name = sorted(row.keys() ^ set(columns), key=str)[0]
            message = f"copy_from.rows[{number}] and rows[0] differ in '{name}'"
            raise wrong(f"{message}: name the columns")
        return [row.get(name) for name in columns]
    if not isinstance(row, list):
        raise wrong(f"copy_from.rows[{number}] is no mapping and no list")
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
