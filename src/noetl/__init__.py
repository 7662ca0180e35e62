"""NoETL: declarative playbooks, run as event-sourced Petri nets.

The public names load on first use, so that ``import noetl`` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noetl.dsl.diagnostics import Diagnostic
    from noetl.dsl.load import Loaded
    from noetl.dsl.model import Playbook

__version__ = "0.1.0"
__all__ = ["Diagnostic", "Loaded", "Playbook", "__version__", "load"]


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

    homes = {
        "Diagnostic": "noetl.dsl.diagnostics",
        "Loaded": "noetl.dsl.load",
        "Playbook": "noetl.dsl.model",
    }
    if name in homes:
        return getattr(import_module(homes[name]), name)
    raise AttributeError(f"module 'noetl' has no attribute '{name}'")
