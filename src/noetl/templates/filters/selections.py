"""Filters that apply a filter or a test to every item."""

from __future__ import annotations

from collections.abc import Callable

from noetl.templates import errors, methods
from noetl.templates.evaluation import Evaluation
from noetl.templates.filters.lists import arrange, attribute_getter, sort_key
from noetl.templates.registry import FILTERS, TESTS
from noetl.templates.undefined import Undefined
from noetl.templates.values import Group, iterate
from noetl.types import JSON


@FILTERS.add("map", example="{{ [{'n': 1}, {'n': 2}] | map(attribute='n') }}")
def mapped(run: Evaluation, value: JSON, *args: JSON, **named: JSON) -> list[JSON]:
    """Each item's attribute (with a default), or each item through a filter."""
    if not value:
        return []
    if not args and "attribute" in named:
        return _attributes(run, value, **named)
    if not args or not isinstance(args[0], str):
        raise errors.wrong("map: expected attribute='name' or the name of a filter")
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
        raise errors.wrong("expected the name of a test, such as 'defined' or '=='")
    entry = TESTS.find(args[0])
    rest = list(args[1:])
    return lambda item: bool(entry.apply(run, item, rest, named))


@FILTERS.add("items", example="{{ {'a': 1} | items }}")
def items(run: Evaluation, value: JSON) -> list[JSON]:
    """A list of [key, value]."""
    if isinstance(value, Undefined):
        return list(value)
    return methods.items(run, _expect_mapping(value))


@FILTERS.add("dictsort", example="{{ {'b': 1, 'a': 2} | dictsort }}")
def dictsort(
    run: Evaluation,
    value: JSON,
    case_sensitive: bool = False,
    by: str = "key",
    reverse: bool = False,
) -> list[JSON]:
    """A list of [key, value] in the order of the keys, or of the values."""
    if by not in ("key", "value"):
        raise errors.wrong("dictsort: by is 'key' or 'value'")
    pairs = methods.items(run, _expect_mapping(value))
    keys = [pair[by == "value"] for pair in pairs]
    if not case_sensitive:
        keys = [key.lower() if isinstance(key, str) else key for key in keys]
    return arrange(run, pairs, keys, bool(reverse))


@FILTERS.add("combine", example="{{ {'a': {'x': 1}} | combine({'a': {'y': 2}}) }}")
def combine(
    run: Evaluation, value: JSON, other: JSON, recursive: bool = True
) -> dict[str, JSON]:
    """Both mappings in one; the second wins, inner mappings are merged as well."""
    left, right = _expect_mapping(value), _expect_mapping(other)
    run.charge(8 + 2 * (len(left) + len(right)))
    merged = {**left, **right}
    if recursive:
        for key in left.keys() & right.keys():
            if isinstance(left[key], dict) and isinstance(right[key], dict):
                merged[key] = combine(run, left[key], right[key])
    return merged


def _expect_mapping(value: JSON) -> dict[str, JSON]:
    if isinstance(value, Undefined):
        raise value.error()
    if not isinstance(value, dict):
        raise errors.wrong(f"expected a mapping, found {errors.kind_of(value)}")
    return value


@FILTERS.add(
    "groupby",
    example="{{ [{'c': 'x', 'n': 1}, {'c': 'x', 'n': 2}] | groupby('c') }}",
)
def groupby(
    run: Evaluation,
    value: JSON,
    attribute: JSON,
    default: JSON = None,
    case_sensitive: bool = False,
) -> list[JSON]:
    """A list of [grouper, list], sorted; also as .grouper and .list."""
    key = sort_key(run, attribute, case_sensitive, default)
    spelled = attribute_getter(run, attribute, default)
    items = iterate(run, value)
    groups: list[JSON] = []
    previous: list[JSON] = []
    for item in arrange(run, items, [key(item) for item in items]):
        mark = [key(item)]
        if not groups or mark != previous:
            groups.append(Group([spelled(item), []]))
            previous = mark
        groups[-1][1].append(item)
    return groups
