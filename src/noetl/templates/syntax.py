"""Jinja2's syntax tree, as the rest of the package reads it."""

from __future__ import annotations

from typing import Any

from noetl.types import JSON

Node = Any
"""A node of Jinja2's tree; its class name says what it is."""

VARIABLE = object()
"""Stands for the value of what is not a literal."""


def method_name(callee: Node) -> str | None:
    """The name of the method in ``value.name(...)`` or ``value['name'](...)``."""
    kind = type(callee).__name__
    if kind == "Getattr":
        return str(callee.attr)
    if kind == "Getitem" and isinstance(getattr(callee.arg, "value", None), str):
        return str(callee.arg.value)
    return None


def constant_of(node: Node) -> JSON:
    """The value of a literal, or a marker if the node is something else."""
    kind = type(node).__name__
    if kind == "Const":
        return node.value
    if kind in ("List", "Tuple"):
        values = [constant_of(item) for item in node.items]
        if not any(v is VARIABLE or isinstance(v, list) for v in values):
            return values
    return VARIABLE


def describe(node: Node) -> str:
    """An access as its author wrote it, as far as a message needs it."""
    kind = type(node).__name__
    if kind == "Name":
        return str(node.name)
    if kind == "Getattr":
        return f"{describe(node.node)}.{node.attr}"
    if kind == "Getitem":
        constant = constant_of(node.arg)
        simple = isinstance(constant, str | int)
        return f"{describe(node.node)}[{constant if simple else '…'!r}]"
    if kind == "Call":
        return f"{describe(node.node)}()"
    if kind == "Filter":
        return f"({describe(node.node)} | {node.name})"
    return "(…)"
