"""Comparison of an expected value with a found one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import takewhile

import msgspec

from noetl.dsl.node import Location, shorten
from noetl.errors import TemplateError
from noetl.templates import compile_guard
from noetl.testing.matchers import is_matcher
from noetl.types import JSON

_SHOWN = 200
_AROUND = 30


class Difference(msgspec.Struct, frozen=True):
    """Difference: ``at`` is the expected value's location, ``path`` that of the
    found one."""

    at: Location
    path: str
    expected: str
    found: str

    @property
    def message(self) -> str:
        return f"{self.path}: expected {self.expected}, found {self.found}"


def compare(at: Location, found: JSON, path: str) -> Iterator[Difference]:
    """Yield every difference between the expected and the found value."""
    yield from _compare(at, found, path, subset=False)


def _compare(
    at: Location, found: JSON, path: str, *, subset: bool
) -> Iterator[Difference]:
    expected = at.node.value
    if is_matcher(at):
        yield from _match(at, found, path)
    elif type(expected) is dict and type(found) is dict:
        yield from _mapping(at, found, path, subset=subset)
    elif type(expected) is list and type(found) is list:
        yield from _list(at, found, path, subset=subset)
    elif not _same(expected, found):
        yield Difference(at, path, *_show_both(at.node.plain(), found))


def _mapping(
    at: Location, found: dict[str, JSON], path: str, *, subset: bool
) -> Iterator[Difference]:
    for key in at.child_keys():
        here = f"{path}.{key}"
        if key in found:
            yield from _compare(at[key], found[key], here, subset=subset)
        else:
            yield Difference(at[key], here, _wanted(at[key]), "no such key")
    if subset:
        return
    for key in found:
        if key not in at:
            yield Difference(at, f"{path}.{key}", "no such key", show(found[key]))


def _list(
    at: Location, found: list[JSON], path: str, *, subset: bool
) -> Iterator[Difference]:
    places = list(at.children())
    for index, (place, item) in enumerate(zip(places, found, strict=False)):
        yield from _compare(place, item, f"{path}[{index}]", subset=subset)
    for index in range(len(found), len(places)):
        wanted = _wanted(places[index])
        yield Difference(places[index], f"{path}[{index}]", wanted, "the list's end")
    for index in range(len(places), len(found)):
        here = f"{path}[{index}]"
        yield Difference(at, here, "the list's end", show(found[index]))


def _same(expected: JSON, found: JSON) -> bool:
    """Compare scalars: 1 and 1.0 are the same number; true is not a number."""
    numbers = (int, float)
    if type(expected) in numbers and type(found) in numbers:
        return bool(expected == found)
    return type(expected) is type(found) and bool(expected == found)


# -- matchers --------------------------------------------------------------------


def _match(at: Location, found: JSON, path: str) -> Iterator[Difference]:
    for key in at.child_keys():
        operand = at[key]
        deep = _DEEP.get(key)
        if deep is not None:
            yield from deep(operand, found, path)
        elif not _holds(key, operand, found):
            yield Difference(operand, path, _wanted(at, key), show(found))


def _equals(at: Location, found: JSON, path: str) -> Iterator[Difference]:
    plain = at.node.plain()
    if not _equal(plain, found):
        yield Difference(at, path, show(plain), show(found))


def _subset(at: Location, found: JSON, path: str) -> Iterator[Difference]:
    if type(found) is dict:
        yield from _compare(at, found, path, subset=True)
    else:
        yield Difference(at, path, _wanted(at), show(found))


def _length(at: Location, found: JSON, path: str) -> Iterator[Difference]:
    if isinstance(found, str | list | dict):
        yield from compare(at, len(found), f"the length of {path}")
    else:
        yield Difference(at, path, "something with a length", show(found))


def _unordered(at: Location, found: JSON, path: str) -> Iterator[Difference]:
    """Match each expected item with one found item; a matcher could fit several."""
    if not isinstance(found, list):
        yield Difference(at, path, f"a list of {len(at.node.items)}", show(found))
        return
    places = list(at.children())
    taken = _assign([[_fits(place, item) for item in found] for place in places])
    for place, item in zip(places, taken, strict=True):
        if item is None:
            yield Difference(place, path, f"an item {_wanted(place)}", show(found))
    for index, item in enumerate(found):
        if index not in taken:
            yield Difference(at, f"{path}[{index}]", "no such item", show(item))


def _assign(fits: list[list[bool]]) -> list[int | None]:
    """Return an item for each expectation, by augmenting paths."""
    holder: dict[int, int] = {}

    def find(row: int, tried: set[int]) -> bool:
        for item, good in enumerate(fits[row]):
            if good and item not in tried:
                tried.add(item)
                if item not in holder or find(holder[item], tried):
                    holder[item] = row
                    return True
        return False

    for row in range(len(fits)):
        find(row, set())
    rows = {row: item for item, row in holder.items()}
    return [rows.get(row) for row in range(len(fits))]


def _fits(at: Location, found: JSON) -> bool:
    return next(compare(at, found, ""), None) is None


def _equal(expected: JSON, found: JSON) -> bool:
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(
            _equal(value, found[key]) for key, value in expected.items()
        )
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(_equal, expected, found))
    return _same(expected, found)


def _holds(key: str, at: Location, found: JSON) -> bool:
    operand: JSON = at.node.value
    number = isinstance(found, int | float) and not isinstance(found, bool)
    match key:
        case "$any":
            return True
        case "$type":
            return bool(type_name(found) == operand)
        case "$contains" if isinstance(found, str):
            return isinstance(operand, str) and operand in found
        case "$contains" if isinstance(found, list):
            return any(_fits(at, item) for item in found)
        case "$regex" if isinstance(found, str):
            return re.search(operand, found) is not None
        case "$at_least" if number:
            return bool(found >= operand)
        case "$at_most" if number:
            return bool(found <= operand)
        case "$not":
            return not _fits(at, found)
        case "$when":
            return _true(operand, found)
        case _:
            return False


def _true(guard: str | bool, found: JSON) -> bool:
    try:
        return compile_guard(guard).holds({"value": found})
    except TemplateError:
        return False


def type_name(value: JSON) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
        case _:
            return "mapping"


def _wanted(at: Location, key: str | None = None) -> str:
    """Return the expected value in words; a matcher as it is written."""
    if key is not None:
        return f"{key} {show(at[key].node.plain())}"
    if is_matcher(at):
        return " and ".join(_wanted(at, each) for each in at.child_keys())
    return show(at.node.plain())


def show(value: JSON) -> str:
    """Return a value as JSON, shortened."""
    return shorten(msgspec.json.encode(value).decode(), _SHOWN)


def _show_both(expected: JSON, found: JSON) -> tuple[str, str]:
    """Return the part in which two long texts differ."""
    shown = show(expected), show(found)
    if not isinstance(expected, str) or not isinstance(found, str):
        return shown
    pairs = zip(expected, found, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    if max(len(expected), len(found)) <= 2 * _AROUND or same <= _AROUND:
        return shown
    start = same - _AROUND
    return (f"…{show(expected[start:])}", f"…{show(found[start:])}")


_DEEP: dict[str, Callable[[Location, JSON, str], Iterator[Difference]]] = {
    "$subset": _subset,
    "$unordered": _unordered,
    "$length": _length,
    "$equals": _equals,
}
"""Matchers that report a difference inside the value."""
