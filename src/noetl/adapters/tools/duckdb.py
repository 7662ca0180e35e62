"""Kind ``duckdb``: SQL over files and earlier results."""

from __future__ import annotations

from noetl.dsl.grammar.shape import LIST, MAPPING, TEXT, Field, Shape, integer
from noetl.dsl.kinds import Input, Kind

_PARAMS = Shape(("list", "mapping"), words="a list (?) or a mapping ($name)")
_MEMORY = Shape(("text", "integer"), words="bytes, or a size such as 512MiB")
_ATTACH = Shape(("mapping", "list"))
_EXPORT = Shape(("text", "mapping"))

DUCKDB = Kind(
    name="duckdb",
    doc="Runs SQL in DuckDB.",
    inputs={
        "command": Input(TEXT, "The SQL.", query="sql"),
        "query": Input(TEXT, "Another name of `command`.", query="sql"),
        "params": Input(_PARAMS, "Bound values: `?` or `$name`."),
        "database": Input(TEXT, "A database file (in memory)."),
        "attach": Input(_ATTACH, "Other databases."),
        "extensions": Input(LIST, "Bundled extensions to load."),
        "export": Input(_EXPORT, "Where the result goes."),
        "tables": Input(MAPPING, "Earlier results, as tables by name."),
    },
    row="PIPE-14",
    result="`{rows, columns, rowcount}`, rows as mappings.",
    knobs={
        "memory": Field(_MEMORY, "PIPE-10", "DuckDB's memory limit."),
        "threads": Field(integer(1, 256), "PIPE-10", "DuckDB's threads."),
    },
    defaults={"timeout": 3600},
    one_of=(("command", "query"),),
)
