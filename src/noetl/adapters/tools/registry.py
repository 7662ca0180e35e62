"""The built-in tools: which class works for which kind."""

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
from noetl.adapters.tools.duckdb import DuckdbTool
from noetl.adapters.tools.http import HttpTool
from noetl.adapters.tools.noop import NoopTool
from noetl.adapters.tools.postgres import PostgresTool
from noetl.adapters.tools.python import PythonTool
from noetl.adapters.tools.quantum import QuantumTool
from noetl.adapters.tools.script import ScriptTool
from noetl.adapters.tools.secrets import SecretsTool
from noetl.ports import Keys, Tool

if TYPE_CHECKING:
    from noetl.adapters.plugins.enabled import Plugins


class Place(NamedTuple):
    """Where tools work: how many calls at once, and what of the host they reach."""

    slots: int
    host: HostPolicy
    network: Network
    isolation: Isolation
    home: str | None = None
    plugins: Plugins | None = None


# Making one costs nothing: a tool imports its driver when it first runs.
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


# Those that ask for secrets get somebody to ask.
KEYED_TOOLS: Mapping[str, Callable[[Keys], Tool]] = {"secrets": SecretsTool}


def _older_shapes(tools: Mapping[str, Tool], at: Place) -> dict[str, Tool]:
    """Tools that know the shapes of the dialect ``classic``, and its own kinds."""
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
    """A tool for each kind that is built in or plugged in, for so many slots.

    Without a host policy they work on the user's own machine. The caller closes them,
    each once. Raises ``ConfigError`` if a plug-in cannot be made.
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
        from noetl.adapters.plugins.guards import GuardedTool

        tools |= {kind: GuardedTool(each) for kind, each in plugins.tools.items()}
    return tools
