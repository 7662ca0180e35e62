"""One SQL query: checked, run on a read-only copy of the log, read in batches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import duckdb
import msgspec
from duckdb import StatementType

from noetl.adapters.analytics.duckdb_copy import MEMORY, Warehouse, interruptible
from noetl.adapters.analytics.tables import TABLES
from noetl.adapters.tools.duckdb.errors import Fault
from noetl.adapters.tools.duckdb.noetl_duck.errors import Place, describe
from noetl.adapters.tools.duckdb.noetl_duck.rows import unique
from noetl.adapters.tools.duckdb.noetl_duck.script import casting_query, text_of
from noetl.adapters.tools.duckdb.noetl_duck.values import shape_of
from noetl.errors import ConfigError

BATCH = 1024

_QUERIES = frozenset({StatementType.SELECT, StatementType.MULTI})  # MULTI is a PIVOT
_READING = frozenset({*_QUERIES, StatementType.EXPLAIN})
# The functions query and query_table take the name of a table as a value.
_RESULTS = re.compile(r"\b(results|query|query_table)\b", re.IGNORECASE)
_EVENTS = re.compile(r"\bevents\b", re.IGNORECASE)
_TABLE = re.compile(r"Table with name (\S+) does not exist")
_COLUMN = re.compile(r'Referenced column "([^"]+)" not found')
_NEAREST = re.compile(r'Candidate bindings: ("[^"]+")')


class Answer(NamedTuple):
    """Names of the columns, and batches of rows as JSON values."""

    columns: list[str]
    batches: Iterator[list[list[Any]]]


def needs_results(sql: str) -> bool:
    """Return whether the query may read the results; can be true by mistake."""
    return _RESULTS.search(sql) is not None


def needs_events(sql: str) -> bool:
    """Return whether the query may read events, or results, which come from them."""
    return needs_results(sql) or _EVENTS.search(sql) is not None


def check(sql: str) -> None:
    """Check the syntax before the log is read. Raises ``ConfigError``."""
    with duckdb.connect(config={"errors_as_json": "true"}) as connection:
        _statement(connection, sql)


def ask(warehouse: Warehouse, sql: str) -> Answer:
    """Run the query. Raises ``ConfigError`` with the position in the SQL."""
    connection = warehouse.connect(read_only=True)
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    statement = _statement(connection, sql)
    with _explained(sql):
        return _run(connection, statement)


@contextmanager
def _explained(sql: str) -> Iterator[None]:
    try:
        with interruptible():
            yield
    except duckdb.Error as error:
        raise _explain(error, sql) from None


def _run(connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> Answer:
    sql = statement.query
    if statement.type not in _QUERIES:
        cursor = connection.execute(statement)
        names = [column[0] for column in cursor.description]
        shapes = [shape_of(column[1]) for column in cursor.description]
    else:
        try:
            relation = connection.sql(statement)
        except duckdb.Error:
            connection.execute(statement)  # its error has the position, too
            raise
        names, shapes = relation.columns, [shape_of(kind) for kind in relation.types]
        if any(shape.is_cast for shape in shapes):
            text = text_of(statement).decode()
            cursor = connection.execute(casting_query(text, shapes))
        else:
            cursor = connection.execute(statement)
    reads = [shape.read for shape in shapes]

    def batches() -> Iterator[list[list[Any]]]:
        try:
            while rows := _fetch(cursor, sql):
                yield [
                    [
                        value if read is None or value is None else read(value)
                        for read, value in zip(reads, row, strict=True)
                    ]
                    for row in rows
                ]
        finally:
            connection.close()

    return Answer(unique(list(names)), batches())


def _fetch(cursor: duckdb.DuckDBPyConnection, sql: str) -> list[Any]:
    with _explained(sql):
        return cursor.fetchmany(BATCH)


def _statement(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    try:
        statements = list(connection.extract_statements(sql))
        kinds = [statement.type for statement in statements]
    except duckdb.Error as error:
        raise _explain(error, sql) from None
    except ValueError:  # a type of statement that the driver does not know
        raise ConfigError("only queries are allowed: begin with SELECT") from None
    if not kinds:
        raise ConfigError(f"the query is empty; {_known_tables()}")
    if len(kinds) > 1:
        raise ConfigError(f"one statement at a time, not {len(kinds)}")
    if kinds[0] not in _READING:
        raise ConfigError(
            "only queries are allowed (SELECT, FROM, WITH, DESCRIBE or EXPLAIN), not "
            f"{kinds[0].name}"
        )
    return statements[0]


def _known_tables() -> str:
    return f"the tables are {', '.join(TABLES)}"


def _explain(error: duckdb.Error, sql: str) -> ConfigError:
    fault = msgspec.convert(describe(error, Place(sql)), Fault)
    said = " ".join(fault.said.split())
    if fault.type == "Permission":
        said = "a query can only read the tables of the log, not files or extensions"
    elif fault.type == "OutOfMemory":
        limit = MEMORY // 1024**2
        said = f"the query needs more than {limit:,} MiB: select or group less"
    elif found := _TABLE.search(said):
        said = f"unknown table {found[1]}; {_known_tables()}"
    elif found := _COLUMN.search(said):
        nearest = _NEAREST.search(said)
        hint = f"; did you mean {nearest[1]}?" if nearest else ""
        said = f'unknown column "{found[1]}"{hint}'
    return ConfigError(said + _pointer(sql, fault))


def _pointer(sql: str, fault: Fault) -> str:
    """Return the line with a caret below the position, if DuckDB reports one."""
    line, position = fault.details.get("line"), fault.details.get("position")
    if not isinstance(line, int) or not isinstance(position, int):
        return ""
    lines = sql.split("\n")
    if not 1 <= line <= len(lines):
        return ""
    start = max(0, position - 60)
    shown = lines[line - 1][start : start + 100].replace("\t", " ")
    caret = " " * (position - 1 - start) + "^"
    return f"\n  {shown}\n  {caret}"
