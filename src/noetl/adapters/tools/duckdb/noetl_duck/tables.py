"""Earlier results as tables: JSON files that DuckDB reads itself."""

from __future__ import annotations

import json
from typing import Any

import duckdb

from .quoting import literal, name
from .refusals import Refusal

_READERS = {
    "csv": "read_csv({file})",
    "json": "read_json({file}, format = 'array')",
    "ndjson": "read_json({file}, format = 'newline_delimited')",
    "parquet": "read_parquet({file})",
}
_WIDE = frozenset({"UBIGINT", "HUGEINT"})
_ROWS = 20_480  # of a part
_ONLY = "value"  # the column of rows that are no mappings


def add_table(connection: duckdb.DuckDBPyConnection, table: dict[str, Any]) -> None:
    file = literal(table["file"])
    if table["format"] is not None:  # an exported file: it is read where it is used
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
    """Over a copy on the disk, in parts: a table would take all of the memory."""
    file = literal(table["copy"])
    options = f"FORMAT parquet, ROW_GROUP_SIZE {_ROWS}"
    ((threads,),) = connection.execute("SELECT current_setting('threads')").fetchall()
    connection.execute("SET threads = 1")  # several would wait for each other's rows
    connection.execute(f"COPY (FROM {reader}) TO {file} ({options})")
    connection.execute(f"SET threads = {threads}")
    view = f"CREATE TEMP VIEW {name(table['name'])} AS FROM read_parquet({file})"
    connection.execute(view)


def structure_of(
    connection: duckdb.DuckDBPyConnection, file: str, *, is_large: bool
) -> Any:
    """Of all rows, not of a sample; a text stays one, whatever it looks like.

    The aggregate keeps what it sees: of a large file it sees one row of each kind.
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
    """Column → type: those given; else those found, which are those of all rows."""
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
                f"tables.{table['name']} has both '{other}' and '{column}'; to SQL "
                "they are one name",
            )
    return found


def type_of(structure: Any, whole: str) -> str:
    """The SQL type of what ``json_group_structure`` says."""
    if isinstance(structure, dict):
        members = (f"{name(m)} {type_of(s, whole)}" for m, s in structure.items())
        return f"STRUCT({', '.join(members)})"
    if isinstance(structure, list):
        return f"{type_of(structure[0], whole)}[]"
    if structure in _WIDE:
        return whole
    return "VARCHAR" if structure == "NULL" else str(structure)


def is_wide(structure: Any) -> bool:
    """Whether whole numbers are in it, which may need more than 64 bits."""
    if isinstance(structure, dict):
        return any(map(is_wide, structure.values()))
    if isinstance(structure, list):
        return is_wide(structure[0])
    return structure in _WIDE
