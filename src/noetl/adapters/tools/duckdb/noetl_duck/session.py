"""Connection that is restricted to the needs of the call."""

from __future__ import annotations

import os
from typing import Any

import duckdb

from .errors import Place, Refusal, literal, name, texts
from .tables import add_table

Connection = duckdb.DuckDBPyConnection

_BUNDLED = frozenset({"core_functions", "icu", "json", "parquet"})
_MILD = "SYNTACTIC_ERRORS_DO_NOT_INVALIDATE"
_SPILLED = 8  # temporary files on disk, as a multiple of the memory limit


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
