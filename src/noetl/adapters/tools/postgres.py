"""Kind ``postgres``: SQL with bound parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.adapters.files import Files
from noetl.adapters.host import HostPolicy, own_host
from noetl.adapters.tools.pg.notes import NOTES
from noetl.dsl.grammar.shape import BOOLEAN, TEXT, Field, Shape, integer, one_of
from noetl.dsl.kinds import Input, Kind
from noetl.engine.outcome import Outcome
from noetl.errors import ToolError

if TYPE_CHECKING:
    from noetl.adapters.network import Network
    from noetl.adapters.tools.pg.client import Client
    from noetl.ports import ToolCall

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
    "`sqlstate` of an error, and `notices` if the server gave any.",
    knobs={
        "connections": Field(
            integer(1, 1000), "PIPE-10", "Most connections with one credential (10)."
        ),
        "transaction": Field(BOOLEAN, "PIPE-10", "All statements or none."),
        "idempotency": Field(one_of("key"), "PIPE-10", "Exactly once by `action_id`."),
        "max_rows": Field(integer(1, 2**53), "PIPE-10", "Most rows of a result."),
        "max_bytes": Field(_SIZE, "PIPE-10", "Most bytes of it, as JSON (16GiB)."),
    },
    defaults={"timeout": 3600, "transaction": True},
    one_of=(("command", "query", "sql", "copy_from", "copy_to"),),
    at_most_one=(("auth", "dsn"),),
    notes=NOTES,
)

_INSTALL = "run: pip install '.[postgres]' in a checkout of NoETL"


class PostgresTool:
    """Runs SQL over connections that calls with the same credential share.

    ``host`` and ``network`` say which files and addresses it may reach.
    """

    instant = False

    def __init__(
        self, host: HostPolicy | None = None, network: Network | None = None
    ) -> None:
        self._host = host or own_host()
        self._network = network
        self._client: Client | None = None

    def has_effect(self, call: ToolCall) -> bool:
        """Whether it may write; with a key it is done once, however often it is run."""
        from noetl.adapters.tools.pg.effects import may_write

        if call.spec.get("idempotency") == "key":
            return False
        texts = [call.inputs.get(name) for name in ("command", "query", "sql")]
        sql = next((text for text in texts if isinstance(text, str)), None)
        return sql is None or may_write(sql)

    async def run(self, call: ToolCall) -> Outcome:
        if self._client is None:
            try:
                from noetl.adapters.tools.pg.client import Client
            except ModuleNotFoundError as error:
                if error.name != "asyncpg":
                    raise
                message = f"kind postgres needs the package asyncpg; {_INSTALL}"
                raise ToolError("pg.driver", message) from None
            from noetl.adapters.network import Network

            network = self._network or Network(self._host.private)
            self._client = Client(network, Files(self._host))
        return await self._client.call(call)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None
