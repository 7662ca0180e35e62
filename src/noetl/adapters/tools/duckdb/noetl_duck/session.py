"""Connection that is restricted to the needs of the call."""

from __future__ import annotations

import json
import os
from typing import Any

import duckdb

from .errors import Place, Refusal, literal, name, texts

Connection = duckdb.DuckDBPyConnection

_BUNDLED = frozenset({"core_functions", "icu", "json", "parquet"})
_MILD = "SYNTACTIC_ERRORS_DO_NOT_INVALIDATE"
_SPILLED = 8  # temporary files on disk, as a multiple of the memory limit
_READERS = {
    "csv": "read_csv({file})",
    "json": "read_json({file}, format = 'array')",
    "ndjson": "read_json({file}, format = 'newline_delimited')",
    "parquet": "read_parquet({file})",
}
_WIDE = frozenset({"UBIGINT", "HUGEINT"})
_ROWS = 20_480  # per row group
_ONLY = "value"  # the column of rows that are not mappings


def open_session(request: dict[str, Any], place: Place) -> Connection:
    """Open, attach and fill databases, then lock the settings for the author's SQL."""
    place.label = "database"
    connection = connect(request)
    try:
        connection.execute("SET TimeZone = 'UTC'")
        for extension in request["extensions"]:
            load_extension(connection, extension)
        for alias, file in request["attach"].items():
            place.label = f"attach.{alias}"
            connection.execute(f"ATTACH {target_of(alias, file)}")
        for number, table in enumerate(request["tables"]):
            place.label = f"tables.{table['name']}"
            table["copy"] = os.path.join(request["scratch"], f"table-{number}.parquet")
            add_table(connection, table)
        place.label = ""
        folders = texts(f"{root.rstrip('/')}/" for root in request["roots"])
        connection.execute(f"SET allowed_directories = {folders}")
        given = [*request["tables"], *filter(None, [request["export"]])]
        named = (each.get(at) for each in given for at in ("file", "copy", "part"))
        files = [*request["files"], *filter(None, named)]
        connection.execute(f"SET allowed_paths = {texts(files)}")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
    except BaseException:
        connection.close()
        raise
    return connection


def target_of(alias: str, file: dict[str, Any]) -> str:
    """Return the target of ATTACH: a database file, or the catalog of a lake."""
    options = ["READ_ONLY"] if file["read_only"] else []
    path = file["path"]
    if file["lake"] is not None:
        path = f"ducklake:{path}"
        options.append(f"DATA_PATH {literal(file['lake'])}")
    listed = f" ({', '.join(options)})" if options else ""
    return f"{literal(path)} AS {name(alias)}{listed}"


def connect(request: dict[str, Any]) -> Connection:
    memory = request["memory"] // 1024
    return duckdb.connect(
        request["database"] or ":memory:",
        read_only=request["read_only"],
        config={
            "errors_as_json": "true",  # with the position as a number
            # A query is bound first; if that fails, it is executed for its error.
            "default_transaction_invalidation_policy": _MILD,
            "memory_limit": f"{memory}KiB",
            "threads": str(request["threads"]),
            "temp_directory": request["scratch"],
            "max_temp_directory_size": f"{memory * _SPILLED}KiB",
            "allow_community_extensions": "false",
            "allow_persistent_secrets": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
        },
    )


def load_extension(connection: Connection, extension: str) -> None:
    """Load an extension that is bundled or installed; never downloads one."""
    if extension in _BUNDLED:
        return
    try:
        connection.execute(f"LOAD {name(extension)}")
    except duckdb.Error:
        bundled = ", ".join(sorted(_BUNDLED))
        raise Refusal(
            "duckdb.extension",
            f"extensions: '{extension}' is not installed, and nothing is downloaded "
            f"(bundled: {bundled}); install it on this machine with DuckDB's INSTALL",
        ) from None


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
