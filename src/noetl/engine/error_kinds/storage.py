"""Kinds of large values and of the log."""

from __future__ import annotations

from noetl.engine.error_kinds.kind import ErrorKind

REFERENCES = {
    "ref.gone": ErrorKind(
        "A large value is missing from its store.",
        "Restore the store, or run again.",
    ),
    "ref.corrupt": ErrorKind(
        "The bytes of a large value differ from those that were stored.",
        "Restore the store from a copy; check the disk.",
    ),
    "ref.not_found": ErrorKind(
        "The result does not exist, and no log refers to it.",
        "`noetl result ls ID` lists the results of an execution.",
    ),
    "ref.range": ErrorKind(
        "A range of bytes is reversed, or exceeds the size.",
        "Ask for `KEY:FIRST-LAST` within the size, counted from 0.",
    ),
    "ref.rows": ErrorKind(
        "The stored value is not a table, is a parquet file, or is a list that is too "
        "large to show as rows.",
        "Get the whole value with `noetl result get`.",
    ),
    "ref.format": ErrorKind(
        "A template reads a stored file that is not JSON, such as Parquet.",
        "Read it as a table of a `duckdb` task, or get it with `noetl result get`.",
    ),
    "ref.not_owner": ErrorKind(
        "A reference (`store: noetl`) belongs to another execution, or was not made "
        "by NoETL: it was in a request, a signal, a delivery, a report or the "
        "result of a tool.",
        "Send the value itself, or give the member `store` another name or value.",
    ),
}
STORE = {
    "store.locked": ErrorKind(
        "Another process writes this log.", "Wait for it, or use another `NOETL_HOME`."
    ),
    "store.busy": ErrorKind(
        "Another program keeps the database locked.", "End that program."
    ),
    "store.full": ErrorKind("The disk, or the quota, is full.", "Make room."),
    "store.io": ErrorKind("The disk reports an error.", "Check disk and mount."),
    "store.denied": ErrorKind(
        "An external store refuses the credential, or none is set.",
        "Set the variables that its client reads; check the rights to read, write, "
        "list and delete.",
    ),
    "store.unlisted": ErrorKind(
        "A plug-in stores the results, and cannot list them.",
        "Remove results with the tools of that store.",
    ),
    "store.unreachable": ErrorKind(
        "An external store, or the database server, does not answer. A call that "
        "needs it may be retried.",
        "Check its address and the network.",
        None,
    ),
    "store.readonly": ErrorKind(
        "The log cannot be written.", "Check the rights of its files and folder."
    ),
    "store.network_fs": ErrorKind(
        "The log is on a network file system, whose locks are not reliable.",
        "Put `NOETL_HOME` on a local disk.",
    ),
    "store.missing": ErrorKind(
        "The log, or the execution in it, does not exist.", "`noetl list` shows them."
    ),
    "store.corrupt": ErrorKind(
        "The file is not a log of NoETL, or is damaged.", "Restore it from a copy."
    ),
    "store.migration": ErrorKind(
        "A migration was interrupted.", "Restore it from a copy."
    ),
    "store.version": ErrorKind(
        "The log has a version that this NoETL cannot read.",
        "Install the newer version; the next `noetl run` migrates an older log.",
    ),
    "store.closed": ErrorKind(
        "The store was closed already.", "A defect: report it with the log."
    ),
    "store.conflict": ErrorKind(
        "Another process appended first; the decision is made again.", "Nothing."
    ),
    "store.sequence": ErrorKind(
        "The numbers of the events have a gap.",
        "A defect: report it with the log.",
    ),
    "store.encoding": ErrorKind(
        "An event cannot be encoded.", "A defect: report it with the log."
    ),
    "store.foreign": ErrorKind(
        "An execution planned work for another one.",
        "A defect: report it with the log.",
    ),
    "store.error": ErrorKind("The database reports another error.", "Read it."),
    "log.hash_mismatch": ErrorKind(
        "The log was changed after it was written.",
        "Restore it from a copy; find out which program changed it.",
    ),
}


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
        "DuckDB refused the statement for a reason without a kind below: "
        "`duckdb.error`.",
        "Correct the statement or its parameters.",
    ),
    "duckdb.syntax": ErrorKind(
        "The SQL cannot be parsed.", "Correct the SQL at `details.line`."
    ),
    "duckdb.undefined": ErrorKind(
        "A table, column or function does not exist.",
        "Correct the name; a database in memory is empty in every call.",
    ),
    "duckdb.duplicate": ErrorKind(
        "The object that the SQL creates exists already.",
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
        "A file is missing, is not a database, or cannot be read or written.",
        "Check the path: relative paths start at the playbook's folder.",
    ),
    "duckdb.external_access": ErrorKind(
        "A file is outside of the allowed folders, directly or through a link.",
        "Put it into an allowed folder: with `noetl run` the playbook's, the current "
        "one or `NOETL_HOME`; on a server one of the setting `files.roots`.",
    ),
    "duckdb.forbidden": ErrorKind(
        "The SQL changes a setting, or installs or loads an extension.",
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
        "Two transactions changed the same row or object.", "Retry.", True
    ),
    "duckdb.transaction": ErrorKind(
        "A transaction was left open, or a command does not fit into it.",
        "End it with `COMMIT`; one transaction writes to one database file.",
    ),
    "duckdb.out_of_memory": ErrorKind(
        "DuckDB needs more memory or temporary disk space than its limit.",
        "Select less, or raise `spec.memory`; half of `limits.memory` is its ceiling.",
    ),
    "duckdb.too_large": ErrorKind(
        "The result has more rows or bytes than `spec.max_rows` and `spec.max_bytes` "
        "allow.",
        "Aggregate, select less, or write a file with `export`.",
    ),
    "duckdb.unsupported": ErrorKind(
        "DuckDB does not support the operation, or a value has no JSON form.",
        "Cast such a column: `column::VARCHAR`.",
    ),
    "duckdb.driver": ErrorKind(
        "The package duckdb is not installed.",
        "`pip install 'noetl-engine[duckdb]'`; in a checkout: "
        "`pip install -e '.[duckdb]'`.",
    ),
    "duckdb.internal": ErrorKind(
        "DuckDB had an internal error; its process may have crashed.",
        "Retry once; if it fails again, report it to DuckDB.",
    ),
}
