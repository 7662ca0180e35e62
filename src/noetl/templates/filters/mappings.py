"""Filters on mappings."""

from __future__ import annotations

from noetl.templates import faults, methods
from noetl.templates.catalog import FILTERS
from noetl.templates.evaluation import Evaluation
from noetl.templates.filters.lists import arrange
from noetl.templates.undefined import Undefined
from noetl.types import JSON


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
        raise faults.wrong("dictsort: by is 'key' or 'value'")
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
        raise faults.wrong(f"expected a mapping, found {faults.kind_of(value)}")
    return value
