"""Registry of the built-in tools by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from noetl.adapters.files import Files
from noetl.adapters.host import HostPolicy, own_host
from noetl.adapters.network import Network
from noetl.adapters.processes.isolation import Isolation
from noetl.adapters.tools.classic.nats import NatsTool
from noetl.adapters.tools.classic.shaped import SHAPED, Shaped
from noetl.adapters.tools.classic.sources import Reach
from noetl.adapters.tools.classic.transfer import TransferTool
from noetl.adapters.tools.duckdb.tool import DuckdbTool
from noetl.adapters.tools.engine_kinds import NoopTool
from noetl.adapters.tools.http.tool import HttpTool
from noetl.adapters.tools.postgres.tool import PostgresTool
from noetl.adapters.tools.python import PythonTool
from noetl.adapters.tools.quantum.tool import QuantumTool
from noetl.adapters.tools.script import ScriptTool
from noetl.adapters.tools.secrets import SecretsTool
from noetl.engine.limits import CODE_KINDS, code_off_message
from noetl.engine.tasks.outcome import Outcome
from noetl.errors import ToolError
from noetl.ports import Keys, Tool, ToolCall

if TYPE_CHECKING:
    from noetl.adapters.plugins.enabled import Plugins


class Place(NamedTuple):
    """Environment of tools: the number of slots, and the policies of the host."""

    slots: int
    host: HostPolicy
    network: Network
    isolation: Isolation
    home: str | None = None
    plugins: Plugins | None = None


# A tool imports its driver on its first call, so creating one is cheap.
BUILTIN_TOOLS: Mapping[str, Callable[[Place], Tool]] = {
    "duckdb": lambda at: DuckdbTool(
        at.slots, home=at.home, host=at.host, isolation=at.isolation
    ),
    "http": lambda at: HttpTool(at.host, at.network),
    "noop": lambda at: NoopTool(),
    "postgres": lambda at: PostgresTool(at.host, at.network),
    "python": lambda at: PythonTool(at.slots, host=at.host, isolation=at.isolation),
    "quantum": lambda at: QuantumTool(
        at.slots,
        home=at.home,
        host=at.host,
        plugins=at.plugins.quantum if at.plugins else None,
        isolation=at.isolation,
    ),
    "script": lambda at: ScriptTool(host=at.host, isolation=at.isolation),
    "shell": lambda at: ScriptTool(host=at.host, isolation=at.isolation),
}


# Tools that read secrets get the keychain.
KEYED_TOOLS: Mapping[str, Callable[[Keys], Tool]] = {"secrets": SecretsTool}


def _older_shapes(tools: Mapping[str, Tool], at: Place) -> dict[str, Tool]:
    """Return tools with the shapes of the dialect ``classic``, and its own kinds."""
    files = Files(at.host)
    found: dict[str, Tool] = {
        kind: Shaped(tools[kind], tools["http"], files) for kind in SHAPED
    }
    transfer = TransferTool(tools, Reach(files, at.network))
    return {**found, "nats": NatsTool(at.network), "transfer": transfer}


def make_tools(
    slots: int,
    keys: Keys | None = None,
    *,
    host: HostPolicy | None = None,
    network: Network | None = None,
    isolation: Isolation | None = None,
    home: str | None = None,
    plugins: Plugins | None = None,
) -> dict[str, Tool]:
    """Make a tool for each built-in kind and each kind of ``plugins``.

    The default of ``host`` is the user's own machine. The caller closes each tool once.
    Raises ``ConfigError`` if a plug-in makes no tool.
    """
    host = host or own_host(home)
    network = network or Network(host.private)
    isolation = isolation or Isolation(host)
    place = Place(slots, host, network, isolation, home, plugins)
    tools = {kind: make(place) for kind, make in BUILTIN_TOOLS.items()}
    tools |= _older_shapes(tools, place)
    if keys is not None:
        tools |= {kind: make(keys) for kind, make in KEYED_TOOLS.items()}
    if plugins is not None and plugins.tools:
        from noetl.adapters.plugins.tool_guard import GuardedTool

        tools |= {kind: GuardedTool(each) for kind, each in plugins.tools.items()}
    return tools


class NoCode:
    """Replaces a tool that runs code, and refuses every call."""

    instant = True

    def __init__(self, tool: Tool, pool: str) -> None:
        self._tool = tool
        self._pool = pool

    def has_effect(self, call: ToolCall) -> bool:
        return False

    async def run(self, call: ToolCall) -> Outcome:
        raise ToolError("pool.code_off", code_off_message(call.kind, self._pool))

    async def close(self) -> None:
        await self._tool.close()


def without_code(tools: Mapping[str, Tool], pool: str) -> dict[str, Tool]:
    """Return the tools; those that run code refuse every call."""
    return {
        kind: NoCode(tool, pool) if kind in CODE_KINDS else tool
        for kind, tool in tools.items()
    }
