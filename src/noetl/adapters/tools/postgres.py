"""Kind ``postgres``: SQL with bound parameters."""

from __future__ import annotations

from noetl.dsl.grammar.shape import BOOLEAN, TEXT, Field, Shape, integer, one_of
from noetl.dsl.kinds import Input, Kind

_AUTH = Shape(("text", "mapping"), words="a keychain name, or a credential")
_PARAMS = Shape(("list", "mapping"), words="a list ($1…) or a mapping (:name)")
_COPY = Shape(("mapping",))

POSTGRES = Kind(
    name="postgres",
    doc="Runs one or several SQL statements.",
    inputs={
        "command": Input(TEXT, "The SQL.", query="sql"),
        "query": Input(TEXT, "Another name of `command`.", query="sql"),
        "sql": Input(TEXT, "Another name of `command`.", query="sql"),
        "params": Input(_PARAMS, "Bound values: `$1…` or `:name`."),
        "auth": Input(_AUTH, "The credential, by keychain name."),
        "dsn": Input(TEXT, "A connection string instead of `auth`."),
        "copy_from": Input(_COPY, "Bulk load: rows, CSV or a reference into a table."),
        "copy_to": Input(_COPY, "Bulk unload of a table or query."),
    },
    row="PIPE-13",
    result="`{rows, columns, rowcount, status}`, rows as mappings. "
    "`outcome.pg` has `code` and `sqlstate`.",
    knobs={
        "connections": Field(integer(1, 1000), "PIPE-10", "Most pooled connections."),
        "transaction": Field(BOOLEAN, "PIPE-10", "All statements or none."),
        "idempotency": Field(one_of("key"), "PIPE-10", "Exactly once by `action_id`."),
    },
    defaults={"timeout": 3600, "transaction": True},
    one_of=(("command", "query", "sql", "copy_from", "copy_to"),),
    at_most_one=(("auth", "dsn"),),
)
