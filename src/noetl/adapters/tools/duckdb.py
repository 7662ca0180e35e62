"""Kind ``duckdb``: SQL over files and earlier results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.adapters.files import Files
from noetl.adapters.host import HostPolicy, own_host
from noetl.adapters.tools.duck.effects import may_write
from noetl.adapters.tools.duck.notes import NOTES
from noetl.dsl.grammar.shape import BOOLEAN, LIST, MAPPING, TEXT, Field, Shape, integer
from noetl.dsl.kinds import Input, Kind
from noetl.engine.outcome import Outcome

if TYPE_CHECKING:
    from noetl.adapters.processes.isolation import Isolation
    from noetl.adapters.tools.duck.client import Client
    from noetl.ports import ToolCall

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
        "max_rows": Field(integer(1, 2**53), "PIPE-10", "Most rows of a result."),
        "max_bytes": Field(
            _SIZE, "PIPE-10", "Most bytes of it, as JSON (16GiB, never more)."
        ),
    },
    defaults={"timeout": 3600},
    one_of=(("command", "query"),),
    notes=NOTES,
)


class DuckdbTool:
    """Runs each call in a process of its execution, at most ``slots`` at a time.

    ``host`` says which files it may touch; the files of a call's time are in ``home``.
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
            from noetl.adapters.tools.duck.client import Client

            isolation = self._isolation or Isolation(self._host)
            self._client = Client(self._slots, self._home, Files(self._host), isolation)
        return await self._client.call(call)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None
