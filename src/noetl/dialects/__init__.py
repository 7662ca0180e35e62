"""Dialects of earlier playbooks: front ends that rewrite into the canonical language.

A dialect is off until a playbook's ``executor.spec.extensions`` or the operator names
it. It turns the nodes of a document into canonical nodes, each with the position of its
source, before the grammar reads them; no later stage depends on dialects.
"""

from __future__ import annotations

from importlib import import_module

from noetl.dsl.diagnostics import Report
from noetl.dsl.load import Loaded
from noetl.dsl.load import load as load_canonical
from noetl.dsl.node import Node
from noetl.dsl.python_source import InspectCode
from noetl.dsl.tool_kinds import Kinds
from noetl.net.checks import find_certain

# `classic` comes first: it brings tasks into the shape that `legacy` reads.
_MODULES = ("classic", "legacy")


def load(
    text: str | bytes,
    kinds: Kinds,
    extensions: frozenset[str] = frozenset(),
    *,
    strict: bool = False,
    net: bool = True,
    inspect: InspectCode | None = None,
) -> Loaded:
    """Read a playbook of any enabled dialect; never raises for any text.

    Without ``net``, the certain findings about its net are left out; without
    ``inspect``, those about the Python code of its tasks.
    """
    return load_canonical(
        text,
        kinds,
        extensions,
        strict=strict,
        rewrite=rewrite,
        net_checks=find_certain if net else None,
        inspect=inspect,
    )


def load_validated(
    text: str | bytes, kinds: Kinds, extensions: frozenset[str] = frozenset()
) -> Loaded:
    """Read a playbook that was validated before: its shape is checked, and no rule of
    the validator runs again."""
    return load_canonical(text, kinds, extensions, rewrite=rewrite, rules=False)


def rewrite(
    root: Node, kinds: Kinds, extensions: frozenset[str], report: Report
) -> tuple[Node, Kinds]:
    """Apply the enabled dialects; a dialect's module is imported on first use."""
    for name in _MODULES:
        if name in extensions:
            module = import_module(f"noetl.dialects.{name}")
            root = module.rewrite(root, report, extensions)
            if hasattr(module, "extend"):
                kinds = module.extend(kinds)
    return root, kinds
