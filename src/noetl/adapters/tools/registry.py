"""The built-in tools: which class works for which kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from noetl.adapters.tools.http import HttpTool
from noetl.adapters.tools.noop import NoopTool
from noetl.adapters.tools.postgres import PostgresTool
from noetl.adapters.tools.python import PythonTool
from noetl.adapters.tools.script import ScriptTool
from noetl.ports import Tool

# Making one costs nothing: a tool imports its driver when it first runs.
BUILTIN_TOOLS: Mapping[str, Callable[[int], Tool]] = {
    "http": lambda slots: HttpTool(),
    "noop": lambda slots: NoopTool(),
    "postgres": lambda slots: PostgresTool(),
    "python": lambda slots: PythonTool(slots),
    "script": lambda slots: ScriptTool(),
    "shell": lambda slots: ScriptTool(),
}


def make_tools(slots: int) -> dict[str, Tool]:
    """A tool for each kind that is built in, for a worker with so many slots.

    Whoever makes them closes them, each once.
    """
    return {kind: make(slots) for kind, make in BUILTIN_TOOLS.items()}
