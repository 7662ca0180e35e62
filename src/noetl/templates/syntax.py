"""Syntax tree of Jinja2: its nodes, and checks of literals, names and arguments."""

from __future__ import annotations

from typing import Any

from noetl.templates import errors
from noetl.templates.registry import FILTERS, TESTS, Catalog, Entry
from noetl.templates.values import hidden, number
from noetl.types import JSON

Node = Any
"""A node of Jinja2's tree, identified by its class name."""

VARIABLE = object()
"""Marker for a node that is not a literal."""


def method_name(callee: Node) -> str | None:
    """Return the method of ``value.name(...)`` or ``value['name'](...)``."""
    kind = type(callee).__name__
    if kind == "Getattr":
        return str(callee.attr)
    if kind == "Getitem" and isinstance(getattr(callee.arg, "value", None), str):
        return str(callee.arg.value)
    return None


def constant_of(node: Node) -> JSON:
    """Return the value of a literal, or a marker if the node is something else."""
    kind = type(node).__name__
    if kind == "Const":
        return node.value
    if kind in ("List", "Tuple"):
        values = [constant_of(item) for item in node.items]
        if not any(v is VARIABLE or isinstance(v, list) for v in values):
            return values
    return VARIABLE


def describe(node: Node) -> str:
    """Return an access as its author wrote it, simplified for messages."""
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


# Positions of filter arguments that name an attribute, a filter or a test.
_ATTRIBUTE_AT = {"sort": 2, "unique": 1, "min": 1, "max": 1, "join": 1, "sum": 0}
_ATTRIBUTE_AT |= {"groupby": 0, "selectattr": 0, "rejectattr": 0}
_NAMED_AT: dict[str, tuple[Catalog, int]] = {
    "map": (FILTERS, 0),
    "select": (TESTS, 0),
    "reject": (TESTS, 0),
    "selectattr": (TESTS, 1),
    "rejectattr": (TESTS, 1),
}


def check_constant(value: object) -> None:
    """Reject literals that are not JSON: infinite numbers, lone surrogates."""
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
            raise errors.wrong("a text contains half of a surrogate pair; remove it")
    elif isinstance(value, int | float):
        number(value)


def check_name(name: str) -> None:
    if name.startswith("__"):
        raise hidden(name)


def check_arguments(entry: Entry, node: Node) -> None:
    check_stars(node)
    keywords = tuple(k.key for k in node.kwargs)
    if not entry.accepts(len(node.args), keywords):
        raise errors.wrong(
            f"{entry.sort} {entry.name}: the arguments do not fit; it is "
            f"{entry.signature}"
        )


def check_stars(node: Node) -> None:
    if node.dyn_args is not None or node.dyn_kwargs is not None:
        raise errors.forbidden("*arguments and **arguments are not available")


def check_words(node: Node) -> None:
    """Check literal arguments that name attributes, filters and tests."""
    constants = [getattr(argument, "value", None) for argument in node.args]
    named = [k.value for k in node.kwargs if k.key == "attribute"]
    attributes = [getattr(value, "value", None) for value in named]
    attributes += constants[_at(_ATTRIBUTE_AT.get(node.name))]
    for attribute in attributes:
        if isinstance(attribute, str):
            for part in attribute.replace(",", ".").split("."):
                check_name(part)
    catalog, place = _NAMED_AT.get(node.name, (FILTERS, None))
    for word in constants[_at(place)]:
        if isinstance(word, str):
            catalog.find(word)


def _at(place: int | None) -> slice:
    return slice(0, 0) if place is None else slice(place, place + 1)
