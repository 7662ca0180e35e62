"""The methods of mappings and lists, and the one function, ``range``."""

from __future__ import annotations

from noetl.templates import faults, limits
from noetl.templates.catalog import GLOBALS, METHODS
from noetl.templates.evaluation import Evaluation
from noetl.templates.values import weigh
from noetl.types import JSON

_MAPPING = METHODS["mapping"]
_LIST = METHODS["list"]


@_MAPPING.add("get", example="{{ {'a': 1}.get('b', 0) }}")
def get(
    run: Evaluation, mapping: dict[str, JSON], key: JSON, default: JSON = None
) -> JSON:
    """The value of the key, or the default."""
    return mapping.get(key, default)


@_MAPPING.add("items", example="{{ {'a': 1}.items() }}")
def items(run: Evaluation, mapping: dict[str, JSON]) -> list[JSON]:
    """A list of [key, value]; also where the mapping has a key named items."""
    run.charge(2 * len(mapping))
    return [[key, value] for key, value in mapping.items()]


@_MAPPING.add("keys", example="{{ {'a': 1}.keys() }}")
def keys(run: Evaluation, mapping: dict[str, JSON]) -> list[JSON]:
    """A list of the keys."""
    run.charge(len(mapping))
    return list(mapping)


@_MAPPING.add("values", example="{{ {'a': 1}.values() }}")
def values(run: Evaluation, mapping: dict[str, JSON]) -> list[JSON]:
    """A list of the values."""
    run.charge(len(mapping))
    return list(mapping.values())


@_LIST.add("index", example="{{ ['a', 'b'].index('b') }}")
def list_index(
    run: Evaluation,
    items: list[JSON],
    value: JSON,
    start: int = 0,
    end: int | None = None,
) -> int:
    """Where the value is first; an error if it is not there."""
    weigh(run, items)
    try:
        return items.index(value, start, len(items) if end is None else end)
    except ValueError:
        raise faults.wrong("index: the list does not contain that") from None


@_LIST.add("count", example="{{ [1, 2, 1].count(1) }}")
def list_count(run: Evaluation, items: list[JSON], value: JSON) -> int:
    """How often the value occurs."""
    weigh(run, items)
    return items.count(value)


@GLOBALS.add("range", example="{{ range(1, 7, 2) }}")
def numbers(run: Evaluation, *bounds: int) -> list[int]:
    """Whole numbers as a list: range(stop), range(start, stop), with a step."""
    found = make_range(bounds, limits.RANGE)
    run.charge(len(found))
    return list(found)


def make_range(bounds: tuple[JSON, ...], most: int) -> range:
    """A range of at most so many numbers."""
    if not 1 <= len(bounds) <= 3 or any(type(b) is not int for b in bounds):
        raise faults.wrong(
            "range takes one to three whole numbers: range(stop), "
            "range(start, stop), range(start, stop, step)"
        )
    if len(bounds) == 3 and bounds[2] == 0:
        raise faults.wrong("range: the step is zero")
    found = range(*bounds)
    # len() fails on what does not fit a machine word; the last index does not.
    if found and (found[-1] - found[0]) // found.step >= most:
        raise faults.too_much(f"range gives more than {most:,} numbers")
    return found
