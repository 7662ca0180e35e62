"""Matchers, which may replace a value in an expectation."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from noetl.dsl.diagnostics import did_you_mean
from noetl.dsl.grammar.reader import Reader
from noetl.dsl.grammar.records import (
    ANY,
    GUARD,
    LIST,
    MAPPING,
    TEXT,
    Field,
    Shape,
    one_of,
)
from noetl.dsl.node import Location
from noetl.errors import TemplateError
from noetl.templates import compile_guard
from noetl.testing.grammar import CODE

TYPES = ("text", "number", "boolean", "list", "mapping", "null")

_NUMBER = Shape(("number",))
_TRUE = Shape(("boolean",), words="true")
_LENGTH = Shape(("integer", "mapping"), words="a number, or a matcher")


class Matcher(msgspec.Struct, frozen=True):
    """Matcher: the expected operand, and its line in the reference."""

    operand: Shape
    doc: str
    example: str


MATCHERS: dict[str, Matcher] = {
    "$any": Matcher(_TRUE, "Any value at all; it must be there.", "{$any: true}"),
    "$type": Matcher(
        one_of(*TYPES), f"A value of this type: {', '.join(TYPES)}.", "{$type: number}"
    ),
    "$contains": Matcher(
        ANY,
        "A text with this part, or a list with an item that matches.",
        "{$contains: not found}",
    ),
    "$regex": Matcher(TEXT, "A text in which this is found.", "{$regex: '^[a-z]+$'}"),
    "$length": Matcher(
        _LENGTH, "A text, list or mapping of this length.", "{$length: 3}"
    ),
    "$subset": Matcher(
        MAPPING,
        "A mapping with at least these keys; mappings inside it likewise.",
        "{$subset: {id: 7}}",
    ),
    "$unordered": Matcher(
        LIST, "A list of these items, in any order.", "{$unordered: [b, a]}"
    ),
    "$at_least": Matcher(_NUMBER, "A number not below this one.", "{$at_least: 1}"),
    "$at_most": Matcher(_NUMBER, "A number not above this one.", "{$at_most: 9}"),
    "$not": Matcher(ANY, "Anything that does not match.", "{$not: null}"),
    "$when": Matcher(
        GUARD,
        "A value for which this template holds; it reads `value`.",
        '{$when: "{{ value is divisibleby 2 }}"}',
    ),
    "$equals": Matcher(
        ANY, "Exactly this, keys that begin with `$` included.", "{$equals: {$any: 1}}"
    ),
}


def is_matcher(at: Location) -> bool:
    """Return whether a mapping is a matcher: its keys begin with ``$``."""
    return at.node.is_mapping and any(key.startswith("$") for key in at.child_keys())


def check_matchers(reader: Reader, at: Location) -> None:
    """Report problems of the matchers in an expected value."""
    if not is_matcher(at):
        for child in at.children():
            check_matchers(reader, child)
        return
    for key in at.child_keys():
        child = at[key]
        matcher = MATCHERS.get(key)
        if matcher is None:
            _refuse(reader, at, key)
            continue
        field = Field(matcher.operand, CODE, matcher.doc)
        if reader.fits(child, field, key) and key != "$equals":
            for message in _faults(key, child):
                reader.report.error(CODE, "matcher", child, message)
            check_matchers(reader, child)


def _refuse(reader: Reader, at: Location, key: str) -> None:
    if key.startswith("$"):
        message, hint = f"unknown matcher '{key}'", did_you_mean(key, MATCHERS)
    else:
        message = f"'{key}' beside a matcher: a mapping has only keys or only matchers"
        hint = "to compare some keys only, write $subset: {…}"
    reader.report.error(CODE, "matcher", at.key(key), message, hint)


def _faults(key: str, at: Location) -> Iterator[str]:
    try:
        if key == "$regex":
            re.compile(at.node.value)
        elif key == "$when":
            compile_guard(at.node.value)
    except (re.error, OverflowError, RecursionError) as error:
        yield f"not a regular expression: {error}"
    except TemplateError as error:
        yield error.message
