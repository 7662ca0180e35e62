"""Kinds of the tools `postgres` and `duckdb`."""

from __future__ import annotations

from noetl.engine.error_kinds.kind import ErrorKind

DATABASES = {
    "pg.*": ErrorKind(
        "PostgreSQL refused the statement; `outcome.pg` has the code.",
        "Match on `outcome.pg.sqlstate`.",
        None,
    ),
    "pg.blocked_address": ErrorKind(
        "The database is at an address that the worker may not reach.",
        "Ask the operator to allow the address by the setting `network.private`.",
    ),
    "duckdb.*": ErrorKind(
        "DuckDB refused the statement for a reason that is none of those below: "
        "`duckdb.error`.",
        "Correct the statement or its parameters.",
    ),
    "duckdb.syntax": ErrorKind(
        "The SQL cannot be parsed.", "Correct it where `details.line` says."
    ),
    "duckdb.undefined": ErrorKind(
        "A table, column or function does not exist.",
        "Correct the name; a database in memory is empty in every call.",
    ),
    "duckdb.duplicate": ErrorKind(
        "What the SQL creates exists already.",
        "Write `CREATE TABLE IF NOT EXISTS` or `CREATE OR REPLACE`.",
    ),
    "duckdb.binder": ErrorKind(
        "The SQL does not fit together: types, arguments, grouping.",
        "Correct it; cast where the message asks for it.",
    ),
    "duckdb.catalog": ErrorKind(
        "An object of the database is in the way: of another type, or still in use.",
        "Drop what depends on it first.",
    ),
    "duckdb.constraint": ErrorKind(
        "A key, a check, or NOT NULL is violated.",
        "Correct the data, or write `ON CONFLICT`.",
    ),
    "duckdb.data": ErrorKind(
        "A value does not fit: a cast, a range, a malformed file. The value is not "
        "shown.",
        "Use `TRY_CAST`, or look at the data.",
    ),
    "duckdb.io": ErrorKind(
        "A file is missing, is no database, or cannot be read or written.",
        "Check the path: a relative one begins in the playbook's folder.",
    ),
    "duckdb.external_access": ErrorKind(
        "A file is outside of the allowed folders, also by a link.",
        "Put it into an allowed folder: with `noetl run` the playbook's, the current "
        "one or `NOETL_HOME`; on a server one of the setting `files.roots`.",
    ),
    "duckdb.forbidden": ErrorKind(
        "The SQL wants to change a setting, or to install or load an extension.",
        "Use the knobs under `spec`, and the input `extensions`.",
    ),
    "duckdb.extension": ErrorKind(
        "An extension of the input `extensions` is not installed.",
        "Install it on the machine; nothing is downloaded.",
    ),
    "duckdb.locked": ErrorKind(
        "Another process has the database file open.",
        "Retry with a delay; only readers can share a file.",
        True,
    ),
    "duckdb.conflict": ErrorKind(
        "Two transactions changed the same thing.", "Retry.", True
    ),
    "duckdb.transaction": ErrorKind(
        "A transaction was left open, or a command does not fit into it.",
        "End it with `COMMIT`; one transaction writes to one database file.",
    ),
    "duckdb.out_of_memory": ErrorKind(
        "DuckDB needs more memory, or disk in its place, than it may have.",
        "Select less, or raise `spec.memory`.",
    ),
    "duckdb.too_large": ErrorKind(
        "The result has more rows or bytes than `spec.max_rows` and `spec.max_bytes` "
        "allow.",
        "Aggregate, select less, or write a file with `export`.",
    ),
    "duckdb.unsupported": ErrorKind(
        "DuckDB cannot do it, or a value cannot be returned from there.",
        "Cast such a column: `column::VARCHAR`.",
    ),
    "duckdb.driver": ErrorKind(
        "The package duckdb is not installed.",
        "In a checkout: `pip install '.[duckdb]'`.",
    ),
    "duckdb.internal": ErrorKind(
        "DuckDB failed in itself; its process may have crashed.",
        "Retry once; then report it to DuckDB.",
    ),
}
