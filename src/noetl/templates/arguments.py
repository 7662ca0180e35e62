"""Literals, names and arguments, checked where they are written."""

from __future__ import annotations

from noetl.templates import faults
from noetl.templates.catalog import FILTERS, TESTS, Catalog, Entry
from noetl.templates.syntax import Node
from noetl.templates.values import hidden, number

# Where a filter's arguments name an attribute, a filter or a test.
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
    """Refuse literals that are not JSON: endless numbers, half characters."""
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
            raise faults.wrong("a text contains half of a surrogate pair")
    elif isinstance(value, int | float):
        number(value)


def check_name(name: str) -> None:
    if name.startswith("__"):
        raise hidden(name)


def check_arguments(entry: Entry, node: Node) -> None:
    check_stars(node)
    keywords = tuple(k.key for k in node.kwargs)
    if not entry.accepts(len(node.args), keywords):
        raise faults.wrong(
            f"{entry.sort} {entry.name}: the arguments do not fit; it is "
            f"{entry.signature}"
        )


def check_stars(node: Node) -> None:
    if node.dyn_args is not None or node.dyn_kwargs is not None:
        raise faults.forbidden("*arguments and **arguments are not available")


def check_words(node: Node) -> None:
    """Arguments that name attributes, filters and tests, where they are literal."""
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
