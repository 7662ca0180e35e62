"""Checks of loops."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.dsl.node import shorten
from noetl.dsl.parse import Draft
from noetl.dsl.place import Place
from noetl.dsl.rules.registry import Found, rule

IDENTIFIER = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
RESERVED = ("index", "parent")


def _iterators(draft: Draft) -> Iterator[Place]:
    """Where iterators are named, in sound loops and in broken ones."""
    for step in draft.playbook.workflow:
        loop = step.at.get("loop")
        while loop is not None:
            at = loop.get("iterator")
            if at is not None and isinstance(at.node.value, str):
                yield at
            loop = loop.get("loop")


@rule("iterator-name", "S-51")
def iterators_are_identifiers(draft: Draft) -> Iterator[Found]:
    """An iterator is a letter or `_`, then letters, digits and `_`."""
    for at in _iterators(draft):
        if not IDENTIFIER.match(at.node.value):
            message = f"'{shorten(at.node.value)}' is not an iterator name"
            yield at, message, "use letters, digits and '_', at most 64"


@rule("iterator-reserved", "S-22")
def iterators_are_not_reserved(draft: Draft) -> Iterator[Found]:
    """An iterator is not called `index` or `parent`: `iter` has these already."""
    for at in _iterators(draft):
        name = at.node.value
        if name in RESERVED:
            message = f"'{name}' is taken: iter.{name} is built in"
            yield at, message, "choose another name, e.g. 'item'"


@rule("max-in-flight-unused", "S-27", "hint")
def bounds_have_an_effect(draft: Draft) -> Iterator[Found]:
    """`max_in_flight` bounds parallel loops; a sequential one ignores it."""
    for step in draft.playbook.workflow:
        for loop in step.loop.levels() if step.loop else ():
            if loop.max_in_flight is not None and loop.mode == "sequential":
                message = "'max_in_flight' has no effect in a sequential loop"
                at = loop.at["spec"].key("max_in_flight")
                yield at, message, "set mode: parallel, or remove it"
