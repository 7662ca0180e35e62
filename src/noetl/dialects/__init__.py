"""The languages of earlier playbooks: front ends that rewrite into the canonical one.

A dialect is off until a playbook's ``executor.spec.extensions`` or the operator
names it. It turns the nodes of a document into canonical nodes, each with the
place of what it came from, before the grammar reads them; nothing behind the
grammar knows that a dialect exists.
"""

from __future__ import annotations

from importlib import import_module

from noetl.dsl.diagnostics import Report
from noetl.dsl.kinds import Kinds
from noetl.dsl.load import Loaded
from noetl.dsl.load import load as load_canonical
from noetl.dsl.node import Node

# `classic` comes first: it brings tasks into the shape that `legacy` knows.
_MODULES = ("classic", "legacy")


def load(
    text: str | bytes,
    kinds: Kinds,
    extensions: frozenset[str] = frozenset(),
    *,
    strict: bool = False,
) -> Loaded:
    """Read a playbook of any dialect that is switched on; never raises for any text."""
    return load_canonical(text, kinds, extensions, strict=strict, rewrite=rewrite)


def rewrite(
    root: Node, kinds: Kinds, extensions: frozenset[str], report: Report
) -> tuple[Node, Kinds]:
    """A dialect's module is imported when a playbook speaks it, not before."""
    for name in _MODULES:
        if name in extensions:
            module = import_module(f"noetl.dialects.{name}")
            root = module.rewrite(root, report)
            if hasattr(module, "extend"):
                kinds = module.extend(kinds)
    return root, kinds
