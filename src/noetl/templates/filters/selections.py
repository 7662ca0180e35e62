"""Filters that apply a filter or a test to every item."""

from __future__ import annotations

from collections.abc import Callable

from noetl.templates import faults
from noetl.templates.catalog import FILTERS, TESTS
from noetl.templates.evaluation import Evaluation
from noetl.templates.filters.attributes import attribute_getter
from noetl.templates.values import iterate
from noetl.types import JSON


@FILTERS.add("map", example="{{ [{'n': 1}, {'n': 2}] | map(attribute='n') }}")
def mapped(run: Evaluation, value: JSON, *args: JSON, **named: JSON) -> list[JSON]:
    """Each item's attribute (with a default), or each item through a filter."""
    if not value:
        return []
    if not args and "attribute" in named:
        return _attributes(run, value, **named)
    if not args or not isinstance(args[0], str):
        raise faults.wrong("map: expected attribute='name' or the name of a filter")
    entry = FILTERS.find(args[0])
    rest = list(args[1:])
    return [entry.apply(run, item, rest, named) for item in iterate(run, value)]


def _attributes(
    run: Evaluation, value: JSON, attribute: JSON, default: JSON = None
) -> list[JSON]:
    get = attribute_getter(run, attribute, default)
    return [get(item) for item in iterate(run, value)]


@FILTERS.add("select", example="{{ [1, 2, 3] | select('odd') }}")
def select(run: Evaluation, value: JSON, *args: JSON, **named: JSON) -> list[JSON]:
    """The items that pass a test, or are truthy."""
    return _pick(run, value, None, args, named, True)


@FILTERS.add("reject", example="{{ [1, 2, 3] | reject('odd') }}")
def reject(run: Evaluation, value: JSON, *args: JSON, **named: JSON) -> list[JSON]:
    """The items that do not pass a test, or are falsy."""
    return _pick(run, value, None, args, named, False)


@FILTERS.add("selectattr", example="{{ [{'n': 1}] | selectattr('n', '==', 1) }}")
def selectattr(
    run: Evaluation, value: JSON, attribute: JSON, *args: JSON, **named: JSON
) -> list[JSON]:
    """The items whose attribute passes a test, or is truthy."""
    return _pick(run, value, attribute, args, named, True)


@FILTERS.add("rejectattr", example="{{ [{'n': 1}] | rejectattr('n', '==', 1) }}")
def rejectattr(
    run: Evaluation, value: JSON, attribute: JSON, *args: JSON, **named: JSON
) -> list[JSON]:
    """The items whose attribute does not pass a test, or is falsy."""
    return _pick(run, value, attribute, args, named, False)


def _pick(
    run: Evaluation,
    value: JSON,
    attribute: JSON,
    args: tuple[JSON, ...],
    named: dict[str, JSON],
    wanted: bool,
) -> list[JSON]:
    if not value:
        return []
    get = attribute_getter(run, attribute)
    passes = _judge(run, args, named)
    return [item for item in iterate(run, value) if passes(get(item)) is wanted]


def _judge(
    run: Evaluation, args: tuple[JSON, ...], named: dict[str, JSON]
) -> Callable[[JSON], bool]:
    if not args:
        return bool
    if not isinstance(args[0], str):
        raise faults.wrong("expected the name of a test, such as 'defined' or '=='")
    entry = TESTS.find(args[0])
    rest = list(args[1:])
    return lambda item: bool(entry.apply(run, item, rest, named))
