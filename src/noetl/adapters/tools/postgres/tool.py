"""Kind ``postgres``: SQL with bound parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.adapters.files import Files
from noetl.adapters.host import HostPolicy, own_host
from noetl.dsl.grammar.records import BOOLEAN, TEXT, Field, Shape, integer, one_of
from noetl.dsl.tool_kinds import Input, Kind
from noetl.engine.tasks.outcome import Outcome
from noetl.errors import ToolError
from noetl.extras import install_command

if TYPE_CHECKING:
    from noetl.adapters.network import Network
    from noetl.adapters.tools.postgres.client import Client
    from noetl.ports import ToolCall


NOTES = """
### Connection

`dsn` is `postgresql://user:password@host:port/database?name=value`, with `/ : @ ? #` of
a password percent-encoded. `auth` is a mapping with `host`, `port`, `database` (or
`dbname`), `user` (or `username`), `password`; other members are ignored. Both know
`sslmode` (`prefer`), `sslrootcert` (a file, or the certificate itself; on a server a
file below a folder of `files.roots`),
`connect_timeout` (10 seconds), `target_session_attrs`, `options` and
`application_name` (`noetl <action_id>`). Several hosts are separated by commas. Nothing
is read from `PG*` variables, `~/.pgpass` or `~/.postgresql`, and no client certificate
or Kerberos ticket of the process is used. Calls with the same credential share
connections; each call finds a connection as if it were new (`DISCARD ALL`). On a server
a private address, or a socket of the machine, needs the setting `network.private`.

### Parameters

Values are bound, never written into the SQL. `$1` takes from a list, `:name` from a
mapping; in quotes, comments, casts (`::`) and array slices (`a[1:n]`) a colon is not a
placeholder, and inside brackets `a[1: :n]` makes one. All statements of a script share
the parameters. A value becomes what its place asks for:

- a text is read by PostgreSQL as the same literal would be: `'2024-02-29'` for a date,
  `'5'` for a number, a JSON document for `json`;
- a mapping or list is JSON for `json` and `jsonb`, and a list is an array for an array
  type; null is NULL;
- a number or boolean for a text type is its JSON text.

### Results

| PostgreSQL | JSON |
|---|---|
| integers, `float4`, `float8` | a number; `"NaN"`, `"Infinity"`, `"-Infinity"` |
| `numeric` | a number if it is the same one, else a text with all digits |
| `numeric`, whole, beyond 64 bits | a text |
| `boolean`, texts, enums, `uuid`, `inet`, `xml`, `money` | themselves, or their text |
| `json`, `jsonb` | the value |
| `date`, `time`, `timestamp` | ISO 8601; `infinity`, `0044-03-15 BC` |
| `timestamptz` | the same, in UTC |
| `interval` | ISO 8601: `P1Y2M3DT4H5M6.7S` |
| `bytea` | `\\x` and hexadecimal digits |
| arrays, anonymous rows, points | a list |
| composite types | a mapping |
| ranges | their text: `[1,5)` |

Every one of these texts may be sent back as a parameter. The second column `id` of a
result is called `id_2`. `rowcount` counts rows returned or changed. Rows are read in
batches. From 1 MiB on they are written to the result store as they come, and `rows` is
a reference that reads as the list ([how to](../how-to/large-results.md)): memory does
not grow with the result. Above `spec.max_bytes` or `spec.max_rows` it is the error
`pg.too_large`. With `spec.idempotency: key`, and for CSV, `max_bytes` is 64 MiB, and
nothing is streamed.

### Transactions

All statements are one transaction, also with a `BEGIN … COMMIT` of their own (that is
how to choose an isolation level). With `spec.transaction: false` each commits by
itself, as `VACUUM` and `CREATE INDEX CONCURRENTLY` need it. After `spec.timeout`, or
when the execution is cancelled, the query is stopped on the server, too.

With `spec.idempotency: key` the transaction also writes a row into the table
`noetl_action` of the target (made if missing), with the result. Another run of the same
action, after a crash or by a second worker, finds the row and returns that result. Rows
of finished executions may be deleted.

### Bulk

`copy_from: {table, rows | csv | path, columns, header, delimiter, null}` loads by COPY.
Rows are mappings or lists; `path` is a file below the playbook's folder or the current
one, on a server below a folder of the setting `files.roots`; the columns are those
given, else the first row's or the header's.
`copy_to: {table | query, columns, format, header, delimiter, null}` unloads as
`csv` (in the result's `csv`) or as `rows`.

### Errors

| kind | when | retryable |
|---|---|---|
| `connection` | no connection, or lost; the server shuts down or is full | yes |
| `timeout` | `spec.timeout`, or a timeout of the server | yes |
| `auth` | the server refuses user or password | no |
| `pg.blocked_address` | the worker may not reach the address | no |
| `pg.tls` | no TLS, or no trust | no |
| `pg.serialization`, `pg.deadlock`, `pg.lock` | other transactions conflict | yes |
| `pg.resources` | the server lacks memory or disk | yes |
| `pg.unique_violation`, `pg.foreign_key_violation` | a constraint | no |
| `pg.not_null_violation`, `pg.check_violation` | a constraint | no |
| `pg.exclusion_violation`, `pg.constraint` | a constraint | no |
| `pg.syntax`, `pg.undefined`, `pg.duplicate` | the SQL does not fit the database | no |
| `pg.permission` | the role may not | no |
| `pg.data`, `pg.decode` | a value does not fit | no |
| `pg.raised` | `RAISE EXCEPTION` | no |
| `pg.too_large` | more than the result may have | no |
| `pg.driver` | the driver is not installed | no |
| `pg.transaction`, `pg.limit`, `pg.unsupported` | by SQLSTATE | no |
| `pg.cancelled`, `pg.internal`, `pg.error` | by SQLSTATE | no |

`error.details` has `sqlstate`, `constraint`, `table`, `column`, `detail`, `hint`, and
the `line`, `position` and `sql` of the text. If a connection is lost while a
transaction commits, and there is no key, then `details.in_doubt` is true and the error
not retryable.
"""
"""Text about the kind in the reference, besides its declaration."""


_AUTH = Shape(("text", "mapping"), words="a keychain name, or a credential")
_PARAMS = Shape(("list", "mapping"), words="a list ($1…) or a mapping (:name)")
_COPY = Shape(("mapping",))
_SIZE = Shape(("text", "integer"), words="bytes, or a size such as 64MiB")

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
        "copy_from": Input(_COPY, "Bulk load: rows, CSV or a file into a table."),
        "copy_to": Input(_COPY, "Bulk unload of a table or query."),
    },
    row="PIPE-13",
    result="`{rows, columns, rowcount, status}`, rows as mappings; of several "
    "statements the last one's, and all in `statements`. `outcome.pg` has `code` and "
    "`sqlstate` of an error, and `notices` if the server sent any.",
    knobs={
        "connections": Field(
            integer(1, 1000), "PIPE-10", "Maximum connections per credential (10)."
        ),
        "transaction": Field(BOOLEAN, "PIPE-10", "All statements or none."),
        "idempotency": Field(one_of("key"), "PIPE-10", "Exactly once by `action_id`."),
        "max_rows": Field(integer(1, 2**53), "PIPE-10", "Maximum rows of a result."),
        "max_bytes": Field(_SIZE, "PIPE-10", "Maximum bytes of it, as JSON (16GiB)."),
    },
    defaults={"timeout": 3600, "transaction": True},
    one_of=(("command", "query", "sql", "copy_from", "copy_to"),),
    at_most_one=(("auth", "dsn"),),
    notes=NOTES,
)


class PostgresTool:
    """Runs SQL over connections that calls with the same credential share.

    ``host`` and ``network`` limit its files and addresses.
    """

    instant = False

    def __init__(
        self, host: HostPolicy | None = None, network: Network | None = None
    ) -> None:
        self._host = host or own_host()
        self._network = network
        self._client: Client | None = None

    def has_effect(self, call: ToolCall) -> bool:
        """Return whether it may write; with a key, it takes effect only once."""
        from noetl.adapters.tools.postgres.script import may_write

        if call.spec.get("idempotency") == "key":
            return False
        texts = [call.inputs.get(name) for name in ("command", "query", "sql")]
        sql = next((text for text in texts if isinstance(text, str)), None)
        return sql is None or may_write(sql)

    async def run(self, call: ToolCall) -> Outcome:
        if self._client is None:
            try:
                from noetl.adapters.tools.postgres.client import Client
            except ModuleNotFoundError as error:
                if error.name != "asyncpg":
                    raise
                message = "kind postgres needs the package asyncpg"
                hint = f"run: {install_command('postgres')}"
                raise ToolError("pg.driver", f"{message}; {hint}") from None
            from noetl.adapters.network import Network

            network = self._network or Network(self._host.private)
            self._client = Client(network, Files(self._host))
        return await self._client.call(call)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None
