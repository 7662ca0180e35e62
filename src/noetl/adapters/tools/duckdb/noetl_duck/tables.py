"""Tables from earlier results: JSON files that DuckDB reads."""

from __future__ import annotations

import json
from typing import Any

import duckdb

from .errors import Refusal, literal, name

_READERS = {
    "csv": "read_csv({file})",
    "json": "read_json({file}, format = 'array')",
    "ndjson": "read_json({file}, format = 'newline_delimited')",
    "parquet": "read_parquet({file})",
}
_WIDE = frozenset({"UBIGINT", "HUGEINT"})
_ROWS = 20_480  # per row group
_ONLY = "value"  # the column of rows that are not mappings


def add_table(connection: duckdb.DuckDBPyConnection, table: dict[str, Any]) -> None:
    file = literal(table["file"])
    if table["format"] is not None:  # an exported file: a view reads it on demand
        reader = _READERS[table["format"]].format(file=file)
        connection.execute(f"CREATE TEMP VIEW {name(table['name'])} AS FROM {reader}")
        return
    structure = structure_of(connection, file, is_large=table["is_large"])
    is_flat = structure is not None and not isinstance(structure, dict)
    records = "false" if is_flat else "true"
    last: duckdb.Error | None = None
    for whole in ("BIGINT", "HUGEINT"):
        columns = columns_of(table, {_ONLY: structure} if is_flat else structure, whole)
        listed = ", ".join(f"{name(c)}: {literal(t)}" for c, t in columns.items())
        reader = (
            f"read_json({file}, format = 'array', records = {records}, "
            f"columns = {{{listed}}})"
        )
        try:
            if table["is_large"]:
                add_view(connection, table, reader)
            else:
                connection.execute(
                    f"CREATE TEMP TABLE {name(table['name'])} AS FROM {reader}"
                )
            return
        except duckdb.Error as error:
            last = error
            if not is_wide(structure):
                break
    assert last is not None
    raise last


def add_view(
    connection: duckdb.DuckDBPyConnection, table: dict[str, Any], reader: str
) -> None:
    """Create a view of a copy on disk: a table would have to fit into memory."""
    file = literal(table["copy"])
    options = f"FORMAT parquet, ROW_GROUP_SIZE {_ROWS}"
    ((threads,),) = connection.execute("SELECT current_setting('threads')").fetchall()
    connection.execute("SET threads = 1")  # more would buffer rows for order
    connection.execute(f"COPY (FROM {reader}) TO {file} ({options})")
    connection.execute(f"SET threads = {threads}")
    view = f"CREATE TEMP VIEW {name(table['name'])} AS FROM read_parquet({file})"
    connection.execute(view)


def structure_of(
    connection: duckdb.DuckDBPyConnection, file: str, *, is_large: bool
) -> Any:
    """Return the structure of all rows, not of a sample; texts are not converted.

    The aggregate keeps its input, so it gets one row of each structure of a large file.
    """
    rows = f"read_json_objects({file}, format = 'array')"
    query = f"SELECT json_group_structure(json) FROM {rows}"
    if is_large:
        numbered = f"SELECT json, row_number() OVER () AS n FROM {rows}"
        kinds = (
            "SELECT arg_min(json, n) AS json, min(n) AS n "
            f"FROM ({numbered}) GROUP BY json_structure(json)"
        )
        all_kinds = "to_json(list(json ORDER BY n))"
        query = f"SELECT json_structure({all_kinds})->0 FROM ({kinds})"
    (found,) = connection.execute(query).fetchall()
    return None if found[0] is None else json.loads(found[0])


def columns_of(table: dict[str, Any], structure: Any, whole: str) -> dict[str, str]:
    """Map columns to types: the given ones, else those found in all rows."""
    given = table["columns"]
    if isinstance(given, dict):
        return given
    found = {c: type_of(part, whole) for c, part in (structure or {}).items()}
    if given is not None:
        return {c: found.get(c, "VARCHAR") for c in given}
    if not found:
        raise Refusal(
            "tool.contract",
            f"tables.{table['name']} is empty, so its columns are not known; write "
            "{rows: …, columns: {id: BIGINT, name: VARCHAR}}",
        )
    seen: dict[str, str] = {}
    for column in found:
        other = seen.setdefault(column.lower(), column)
        if other != column:
            raise Refusal(
                "tool.contract",
                f"tables.{table['name']} has both '{other}' and '{column}', which are "
                "the same name in SQL; rename one",
            )
    return found


def type_of(structure: Any, whole: str) -> str:
    """Return the SQL type of a result of ``json_group_structure``."""
    if isinstance(structure, dict):
        members = (f"{name(m)} {type_of(s, whole)}" for m, s in structure.items())
        return f"STRUCT({', '.join(members)})"
    if isinstance(structure, list):
        return f"{type_of(structure[0], whole)}[]"
    if structure in _WIDE:
        return whole
    return "VARCHAR" if structure == "NULL" else str(structure)


def is_wide(structure: Any) -> bool:
    """Return whether it has whole numbers that may need more than 64 bits."""
    if isinstance(structure, dict):
        return any(map(is_wide, structure.values()))
    if isinstance(structure, list):
        return is_wide(structure[0])
    return structure in _WIDE
