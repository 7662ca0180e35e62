"""Kind ``duckdb``: SQL over files and earlier results."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from noetl.adapters.files import Files
from noetl.adapters.host import HostPolicy, own_host
from noetl.adapters.tools.postgres.script import scan
from noetl.dsl.grammar.records import (
    BOOLEAN,
    LIST,
    MAPPING,
    TEXT,
    Field,
    Shape,
    integer,
)
from noetl.dsl.tool_kinds import Input, Kind
from noetl.engine.tasks.outcome import Outcome

if TYPE_CHECKING:
    from noetl.adapters.processes.isolation import Isolation
    from noetl.adapters.tools.duckdb.client import Client
    from noetl.ports import ToolCall

NOTES = """
### Databases

Without `database`, or with `:memory:`, every call has a database of its own, which is
gone after it: two tasks share data by a file, by a result, or not at all. A file is
made if it is missing, opened for the call and closed after it. Calls that only read
open it read-only and run side by side; a call that writes has the file for itself, and
others of the same worker wait for it. Another process that has the file open is
`duckdb.locked`.

`attach` is `{alias: path}` or `{alias: {path, read_only}}`; a list of paths takes the
names of the files. All statements of a call are one transaction, unless the SQL has
`BEGIN` itself; DuckDB lets one transaction write to one database file only.

### Files

SQL reads and writes files below the allowed folders, and nothing else: links are
followed before it is checked.

| where it runs | allowed folders |
|---|---|
| `noetl run` | the playbook's folder, the current one, and `NOETL_HOME` |
| `noetl up` | the folder in which it was called |
| a server and its workers | none |

The setting `files.roots` names others instead, besides the playbook's folder of `noetl
run`. Under `noetl up` and on servers `NOETL_HOME` is never allowed, also not below such
a folder. A relative path, in the SQL as in an input, begins in the playbook's folder:
`FROM 'data/*.parquet'`; a server, which knows no such folder, begins in the one folder
of `files.roots`, if there is just one. There is no network. Settings are locked (`SET
VARIABLE` and `USE` work), and the time zone is UTC. The extensions `core_functions`,
`icu`, `json` and `parquet` are always there; `extensions` names others, which must be
installed on the machine.

`export: out/report.parquet` writes the rows of the last statement, which must be a
query, as `parquet`, `csv`, `json` (a list) or `ndjson`, by the file's ending or by
`format`. The file appears when it is whole. Without a path, `export: {format: parquet}`
(or `csv`, `ndjson`) puts the file into the result store: the result is `{rows, columns,
rowcount}`, where `rows` is a reference for `tables` of other tasks. Secrets are not
masked in files.

### Tables

`tables: {orders: "{{ ctx.orders }}"}` makes a table of a list, without any SQL text:

| value | table |
|---|---|
| a list of mappings | a column for each key, of any row |
| a list of other values | one column, `value` |
| `{rows, columns}`, as an earlier result | `columns` are names, or `{name: TYPE}` |
| a reference: `"{{ ctx.orders \\| ref }}"` | the same, read from the store as a file |
| a result with one: `"{{ _prev \\| ref }}"` | the same, of its `rows` |
| `{path, format}`, such as an earlier `export` | a view of the file |

Types are those of all rows: `BIGINT`, `DOUBLE`, `BOOLEAN`, `VARCHAR`, lists and structs
of them; `JSON` where types are mixed. A text stays `VARCHAR`, also if it looks like a
date. Of an empty list the columns must be given. Above 32 MiB of JSON, the table is a
view of a copy on the disk, in Parquet: memory does not grow with it, and it cannot be
changed.

### Parameters

`?` takes the next value of a list, from one statement to the next, and `$1` the first;
`$name` takes from a mapping, in all statements. Mappings become `STRUCT`, lists `LIST`,
texts `VARCHAR`: cast them where DuckDB does not, `$day::DATE`.

### Results

| DuckDB | JSON |
|---|---|
| integers, `FLOAT`, `DOUBLE` | a number; `"NaN"`, `"Infinity"`, `"-Infinity"` |
| integers beyond 64 bits | a text |
| `DECIMAL` | a number if it is the same one, else a text with all digits |
| `BOOLEAN`, `VARCHAR`, `ENUM`, `UUID`, `BIT` | themselves, or their text |
| `DATE`, `TIME`, `TIMESTAMP` | ISO 8601; `infinity`, `0044-03-15 (BC)` |
| `TIMESTAMPTZ` | the same, in UTC |
| `INTERVAL` | DuckDB's text: `1 month 2 days 03:00:00` |
| `BLOB` | base64 |
| `JSON`, `VARIANT` | the value |
| `LIST`, `ARRAY`, unnamed structs | a list |
| `STRUCT` | a mapping |
| `MAP` | a mapping; with keys that are not scalars, a list of `{key, value}` |
| `UNION` | the member's value |

The second column `id` of a result is called `id_2`. `rowcount` counts rows returned or
changed. Rows are read in batches; from 1 MiB on they go to the result store, and `rows`
is a reference that reads as the list. Above `spec.max_bytes` or `spec.max_rows` it is
`duckdb.too_large`.

### Limits

DuckDB runs in a process of its own. `spec.memory` is DuckDB's limit; what does not fit
goes to the disk under `NOETL_HOME`, up to eight times as much, into a folder that no
other call can name on a server. The process has a limit, too, for what DuckDB does not
count. On servers and workers `spec.memory` is at most half of the setting
`limits.memory` (4 GiB), and there is a thread for each 256 MiB of that half. After
`spec.timeout`, or when the execution is cancelled, the process is killed at once: an
open transaction is lost, and the file stays as it was before.

### Errors

Kinds are in [the list](errors.md#databases). `error.details` has `line` and `position`
of the SQL, and of several statements the number of the `statement`. Messages about data
leave the values out.
"""
"""Text about the kind in the reference, besides its declaration."""


_PARAMS = Shape(("list", "mapping"), words="a list (?) or a mapping ($name)")
_SIZE = Shape(("text", "integer"), words="bytes, or a size such as 512MiB")
_ATTACH = Shape(("mapping", "list"), words="a mapping of aliases to files, or a list")
_EXPORT = Shape(("text", "mapping"), words="a path, {path, format} or {format}")

DUCKDB = Kind(
    name="duckdb",
    doc="Runs one or several SQL statements in DuckDB.",
    inputs={
        "command": Input(TEXT, "The SQL.", query="sql"),
        "query": Input(TEXT, "Another name of `command`.", query="sql"),
        "params": Input(_PARAMS, "Bound values: `?` or `$name`."),
        "database": Input(TEXT, "A database file; without it one in memory."),
        "attach": Input(_ATTACH, "Other database files."),
        "extensions": Input(LIST, "Extensions to load, none of them downloaded."),
        "export": Input(_EXPORT, "A file for the rows, instead of the result."),
        "tables": Input(MAPPING, "Earlier results, as tables by name."),
    },
    row="PIPE-14",
    result="`{rows, columns, rowcount}`, rows as mappings; of several statements the "
    "last one's, and with `spec.statements` those of the others in `before`. "
    "With `export` to a path, `{path, format, rows, size}`.",
    knobs={
        "memory": Field(_SIZE, "PIPE-10", "DuckDB's memory limit (1GiB)."),
        "threads": Field(
            integer(1, 256), "PIPE-10", "DuckDB's threads (the processors, up to 4)."
        ),
        "statements": Field(
            BOOLEAN, "PIPE-10", "Also results of the statements before the last."
        ),
        "max_rows": Field(integer(1, 2**53), "PIPE-10", "Maximum rows of a result."),
        "max_bytes": Field(
            _SIZE, "PIPE-10", "Maximum bytes of it, as JSON (16GiB, never more)."
        ),
    },
    defaults={"timeout": 3600},
    one_of=(("command", "query"),),
    notes=NOTES,
)
_READING = frozenset(
    {
        *("SELECT", "FROM", "WITH", "VALUES", "TABLE", "PIVOT", "UNPIVOT"),
        *("DESCRIBE", "DESC", "SHOW", "SUMMARIZE", "EXPLAIN"),
    }
)
# Searched in the whole text, including names and literals, since a false positive does
# no harm. WITH may contain them in a SELECT, and EXPLAIN ANALYZE runs its statement.
_WRITING = frozenset(
    {
        *("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "COPY", "NEXTVAL"),
        *("CREATE", "ALTER", "DROP", "CALL", "CHECKPOINT", "ANALYZE"),
    }
)
_WORD = re.compile(r"[A-Za-z_]+")
INSPECTED = 16 * 1024
"""Characters of SQL that are inspected on the event loop, before a call."""


class DuckdbTool:
    """Runs each call in a process of its execution, at most ``slots`` at a time.

    ``host`` limits its files; temporary files of calls are in ``home``.
    """

    instant = False

    def __init__(
        self,
        slots: int = 8,
        *,
        home: str | None = None,
        host: HostPolicy | None = None,
        isolation: Isolation | None = None,
    ) -> None:
        self._slots = slots
        self._home = home
        self._host = host or own_host(home)
        self._isolation = isolation
        self._client: Client | None = None

    def has_effect(self, call: ToolCall) -> bool:
        sql = call.inputs.get("command") or call.inputs.get("query")
        return call.inputs.get("export") is not None or may_write(str(sql))

    async def run(self, call: ToolCall) -> Outcome:
        if self._client is None:
            from noetl.adapters.processes.isolation import Isolation
            from noetl.adapters.tools.duckdb.client import Client

            isolation = self._isolation or Isolation(self._host)
            self._client = Client(self._slots, self._home, Files(self._host), isolation)
        return await self._client.call(call)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None


def may_write(sql: str) -> bool:
    """Return whether the start of a call must be recorded before it runs.

    A text longer than ``INSPECTED`` counts as writing.
    """
    return len(sql) > INSPECTED or not is_read_only(sql)


def is_read_only(sql: str) -> bool:
    """Return True only if no statement of the text can have an effect.

    A semicolon in a literal or comment splits the text, too; the rest then begins with
    an unknown word and counts as writing. Takes time in proportion to the text.
    """
    if not _WRITING.isdisjoint(word.upper() for word in _WORD.findall(sql)):
        return False
    return all(map(_reads, sql.split(";")))


def _reads(statement: str) -> bool:
    first = next((each for each in scan(statement) if each.text != "("), None)
    return first is None or first.text.upper() in _READING
