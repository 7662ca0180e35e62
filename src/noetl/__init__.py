"""NoETL: declarative playbooks, run as event-sourced Petri nets.

The public names load on first use, so that ``import noetl`` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noetl.client.http import Refused
    from noetl.dsl.diagnostics import Diagnostic
    from noetl.dsl.load import Loaded
    from noetl.dsl.model import Playbook
    from noetl.errors import ConfigError, NoetlError, Unreachable
    from noetl.sdk.client import AsyncClient, Client
    from noetl.sdk.execution import Execution, ExecutionFailed, PlaybookInvalid
    from noetl.sdk.run import arun, run

__version__ = "0.1.0"
_HOMES = {
    "AsyncClient": "noetl.sdk.client",
    "Client": "noetl.sdk.client",
    "ConfigError": "noetl.errors",
    "Diagnostic": "noetl.dsl.diagnostics",
    "Execution": "noetl.sdk.execution",
    "ExecutionFailed": "noetl.sdk.execution",
    "Loaded": "noetl.dsl.load",
    "NoetlError": "noetl.errors",
    "Playbook": "noetl.dsl.model",
    "PlaybookInvalid": "noetl.sdk.execution",
    "Refused": "noetl.client.http",
    "Unreachable": "noetl.errors",
    "arun": "noetl.sdk.run",
    "run": "noetl.sdk.run",
}
__all__ = [
    "AsyncClient",
    "Client",
    "ConfigError",
    "Diagnostic",
    "Execution",
    "ExecutionFailed",
    "Loaded",
    "NoetlError",
    "Playbook",
    "PlaybookInvalid",
    "Refused",
    "Unreachable",
    "__version__",
    "arun",
    "load",
    "run",
]


def load(
    text: str | bytes,
    *,
    extensions: frozenset[str] = frozenset(),
    strict: bool = False,
) -> Loaded:
    """Read, normalize and validate a playbook with the built-in tool kinds."""
    from noetl.adapters.processes.code_inspection import inspect_code
    from noetl.adapters.tools import BUILTIN
    from noetl.dialects import load as load_with

    return load_with(text, BUILTIN, extensions, strict=strict, inspect=inspect_code)


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'noetl' has no attribute '{name}'")
