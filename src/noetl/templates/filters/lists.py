"""Filters on lists as a whole: order, ends, sums and pieces.

Their argument ``attribute`` is ``'city'``, ``'address.city'`` or ``0``.
"""

from __future__ import annotations

from collections.abc import Callable

from noetl.templates import errors, limits, operators
from noetl.templates.evaluation import Evaluation
from noetl.templates.registry import FILTERS
from noetl.templates.undefined import ITEM, Undefined
from noetl.templates.values import iterate, look_up, text_of, weigh
from noetl.types import JSON

Getter = Callable[[JSON], JSON]


def attribute_getter(run: Evaluation, attribute: JSON, default: JSON = None) -> Getter:
    """Return a function that follows dots into each item."""
    if attribute is None:
        return lambda item: item
    if not isinstance(attribute, str | int):
        raise errors.wrong(
            f"an attribute is text or a number, found {errors.kind_of(attribute)}"
        )
    parts: list[JSON] = [attribute]
    if isinstance(attribute, str):
        parts = [_part(p) for p in attribute.split(".")]
    path = f"item.{attribute}"

    def get(item: JSON) -> JSON:
        run.charge(2 * len(parts))
        for part in parts:
            item = look_up(run, item, part, path, ITEM)
            if isinstance(item, Undefined):
                run.charge(8)  # recording the missing key is slower
                item = item if default is None else default
        return item

    return get


def _part(text: str) -> JSON:
    return int(text) if text.isdecimal() and len(text) < 10 else text


def sort_key(
    run: Evaluation, attribute: JSON, case_sensitive: bool, default: JSON = None
) -> Getter:
    """Return a getter that ignores case unless ``case_sensitive``."""
    get = attribute_getter(run, attribute, default)
    if case_sensitive:
        return get

    def fold(item: JSON) -> JSON:
        value = get(item)
        if isinstance(value, str):
            run.charge(1 + len(value) // 64)
            return value.lower()
        return value

    return fold


def texts(run: Evaluation, items: list[JSON]) -> list[str]:
    """Return all items as text."""
    return [text_of(run, item) for item in items]


# Hashes of larger numbers can be made to collide, which makes a set quadratic.
_CROWDED = 1 << 60


@FILTERS.add("length", "count", example="{{ [1, 2] | length }}")
def length(run: Evaluation, value: JSON) -> int:
    """The number of items, keys or characters."""
    if not isinstance(value, list | dict | str | Undefined):
        raise errors.wrong(f"{errors.kind_of(value)} has no length")
    return len(value)


@FILTERS.add("list", example="{{ 'ab' | list }}")
def to_list(run: Evaluation, value: JSON) -> list[JSON]:
    """The items of a list, keys of a mapping or characters of a text."""
    return list(iterate(run, value))


@FILTERS.add("first", example="{{ [1, 2] | first }}")
def first(run: Evaluation, value: JSON) -> JSON:
    """The first item; undefined if there is none."""
    return _end(run, value, 0, "first")


@FILTERS.add("last", example="{{ [1, 2] | last }}")
def last(run: Evaluation, value: JSON) -> JSON:
    """The last item; undefined if there is none."""
    return _end(run, value, -1, "last")


def _end(run: Evaluation, value: JSON, index: int, which: str) -> JSON:
    items = value if isinstance(value, str | list) else iterate(run, value)
    return items[index] if items else _nothing(run, which)


def _nothing(run: Evaluation, which: str) -> Undefined:
    return run.undefined(f"the {which} item", None, None, "the list is empty")


@FILTERS.add("reverse", example="{{ [1, 2] | reverse }}")
def reverse(run: Evaluation, value: JSON) -> JSON:
    """The items of a list, or the characters of a text, in reverse order."""
    if isinstance(value, str):
        run.size(len(value))
        return value[::-1]
    return iterate(run, value)[::-1]


@FILTERS.add("join", example="{{ [1, 2] | join(', ') }}")
def join(run: Evaluation, value: JSON, d: JSON = "", attribute: JSON = None) -> str:
    """The items as text, with ``d`` between them."""
    get = attribute_getter(run, attribute)
    parts = texts(run, [get(item) for item in iterate(run, value)])
    between = text_of(run, d)
    run.size(sum(map(len, parts)) + len(between) * max(len(parts) - 1, 0))
    return between.join(parts)


@FILTERS.add("sort", example="{{ [3, 1, 2] | sort }}")
def sort(
    run: Evaluation,
    value: JSON,
    reverse: bool = False,
    case_sensitive: bool = False,
    attribute: JSON = None,
) -> list[JSON]:
    """The items in order, by an attribute or several ('age,name') if given."""
    names = attribute.split(",") if isinstance(attribute, str) else [attribute]
    getters = [sort_key(run, name, case_sensitive) for name in names]
    items = iterate(run, value)
    keys = [[get(item) for get in getters] for item in items]
    return arrange(run, items, keys, bool(reverse))


def arrange(
    run: Evaluation, items: list[JSON], keys: list[JSON], reverse: bool = False
) -> list[JSON]:
    """Return the items in the order of their keys; comparisons are charged."""
    before = run.steps
    weigh(run, keys)
    run.charge((before - run.steps) * len(items).bit_length() // 4)
    try:
        order = sorted(range(len(items)), key=keys.__getitem__, reverse=reverse)
    except TypeError:
        raise errors.wrong(
            "the items cannot be put in order: their kinds differ"
        ) from None
    return [items[place] for place in order]


@FILTERS.add("unique", example="{{ ['a', 'A', 'b'] | unique }}")
def unique(
    run: Evaluation, value: JSON, case_sensitive: bool = False, attribute: JSON = None
) -> list[JSON]:
    """Each item once, the first of equals."""
    key = sort_key(run, attribute, case_sensitive)
    seen: set[JSON] = set()
    kept: list[JSON] = []
    for item in iterate(run, value):
        mark = key(item)
        if isinstance(mark, list | dict):
            raise errors.wrong(
                "unique compares texts, numbers, booleans and null",
                "name the attribute to compare",
            )
        if isinstance(mark, int | float) and abs(mark) >= _CROWDED:
            mark = ("number", hex(int(mark)))
        if mark not in seen:
            seen.add(mark)
            kept.append(item)
    return kept


@FILTERS.add("min", example="{{ [3, 1, 2] | min }}")
def smallest(
    run: Evaluation, value: JSON, case_sensitive: bool = False, attribute: JSON = None
) -> JSON:
    """The smallest item; undefined if there is none."""
    return _extreme(run, value, case_sensitive, attribute, min, "smallest")


@FILTERS.add("max", example="{{ [3, 1, 2] | max }}")
def largest(
    run: Evaluation, value: JSON, case_sensitive: bool = False, attribute: JSON = None
) -> JSON:
    """The largest item; undefined if there is none."""
    return _extreme(run, value, case_sensitive, attribute, max, "largest")


def _extreme(
    run: Evaluation,
    value: JSON,
    case_sensitive: bool,
    attribute: JSON,
    choose: Callable[..., int],
    which: str,
) -> JSON:
    key = sort_key(run, attribute, case_sensitive)
    items = iterate(run, value)
    if not items:
        return _nothing(run, which)
    keys = [key(item) for item in items]
    weigh(run, keys)
    try:
        return items[choose(range(len(items)), key=keys.__getitem__)]
    except TypeError:
        raise errors.wrong(f"there is no {which} item: their kinds differ") from None


@FILTERS.add("sum", example="{{ [1, 2, 3] | sum }}")
def total(
    run: Evaluation, value: JSON, attribute: JSON = None, start: JSON = 0
) -> JSON:
    """The sum of numbers, or of lists with ``start=[]``."""
    get = attribute_getter(run, attribute)
    for item in iterate(run, value):
        start = operators.add(run, start, get(item))
    return start


@FILTERS.add("batch", example="{{ [1, 2, 3] | batch(2) }}")
def batch(
    run: Evaluation, value: JSON, linecount: int, fill_with: JSON = None
) -> list[JSON]:
    """Lists of ``linecount`` items each; the last is filled up with ``fill_with``."""
    _expect_count("batch", linecount)
    items = iterate(run, value)
    rows = [items[at : at + linecount] for at in range(0, len(items), linecount)]
    if rows and fill_with is not None:
        missing = linecount - len(rows[-1])
        run.size(missing)
        rows[-1] = rows[-1] + [fill_with] * missing
    return rows


@FILTERS.add("slice", example="{{ [1, 2, 3] | slice(2) }}")
def pieces(
    run: Evaluation, value: JSON, slices: int, fill_with: JSON = None
) -> list[JSON]:
    """A number of lists of nearly equal length, filled up with ``fill_with``."""
    _expect_count("slice", slices)
    items = iterate(run, value)
    run.size(slices)
    run.charge(slices)
    each, longer = divmod(len(items), slices)
    parts: list[JSON] = []
    start = 0
    for number in range(slices):
        end = start + each + (number < longer)
        filler = [fill_with] if fill_with is not None and number >= longer else []
        parts.append(items[start:end] + filler)
        start = end
    return parts


def _expect_count(name: str, count: JSON) -> None:
    if type(count) is not int or count < 1:
        raise errors.wrong(f"{name}: the count is a whole number of at least 1")
    if count > limits.SIZE:
        raise errors.too_much(f"{name}: the count exceeds {limits.SIZE:,}")
