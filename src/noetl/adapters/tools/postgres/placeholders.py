"""Placeholders of statements: their values, and the SQL with ``$1…`` alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Protocol

import msgspec

from noetl.adapters.tools.postgres.script import (
    Statement,
    as_array,
    as_text,
    quote_name,
)
from noetl.errors import ToolError
from noetl.types import JSON


class Written(msgspec.Struct, frozen=True):
    """SQL as it is sent; ``pieces`` map its offsets to those of the statement."""

    sql: str
    pieces: tuple[tuple[int, int], ...] = ((0, 0),)

    def origin(self, offset: int) -> int:
        """Return the offset in the statement for one in ``sql``."""
        here, there = max(piece for piece in self.pieces if piece[0] <= offset)
        following = [origin for at, origin in self.pieces if at > here]
        return min([there + offset - here, *following[:1]])


def keys_of(statement: Statement) -> list[int | str]:
    """Return the distinct placeholders in the order of their first use."""
    return list(dict.fromkeys(each.key for each in statement.placeholders))


def write(statement: Statement, casts: Mapping[int, str]) -> Written:
    """Write the statement with placeholders numbered in the order of ``keys_of``.

    ``casts`` has the types of values that are sent as text and cast by the server.
    """
    numbers = {key: at for at, key in enumerate(keys_of(statement), 1)}
    parts: list[str] = []
    pieces = [(0, 0)]
    size = taken = 0
    for each in statement.placeholders:
        number = numbers[each.key]
        before = statement.text[taken : each.start]
        cast = casts.get(number)
        mark = f"${number}" if cast is None else f"CAST(${number}::text AS {cast})"
        parts += [before, mark]
        pieces.append((size + len(before), each.start))
        size += len(before) + len(mark)
        pieces.append((size, each.end))
        taken = each.end
    parts.append(statement.text[taken:])
    return Written("".join(parts), tuple(pieces))


def values_of(statement: Statement, params: JSON) -> list[JSON]:
    """Return the values of ``keys_of`` from the checked parameters."""
    if isinstance(params, Mapping):
        return [params[key] for key in keys_of(statement)]
    return [params[int(key) - 1] for key in keys_of(statement)]


def check(statements: Sequence[Statement], params: JSON) -> None:
    """Raise ``ToolError`` for the first placeholder without a value.

    Every value of a list must be used. A mapping may have unused names.
    """
    used: set[int | str] = set()
    for statement in statements:
        for each in statement.placeholders:
            used.add(each.key)
            if not has(params, each.key):
                raise missing(statement, each.key, each.start, params)
    if isinstance(params, list):
        for number in range(1, len(params) + 1):
            if number not in used:
                message = f"params has {len(params)} values, but ${number} is not used"
                raise ToolError("tool.contract", message)


def has(params: JSON, key: int | str) -> bool:
    if isinstance(key, int):
        return isinstance(params, list) and 1 <= key <= len(params)
    return isinstance(params, Mapping) and key in params


def missing(
    statement: Statement, key: int | str, start: int, params: JSON
) -> ToolError:
    mark = f"${key}" if isinstance(key, int) else f":{key}"
    line = statement.line + statement.text.count("\n", 0, start)
    if isinstance(key, int):
        expected = "a list"
        held = f"{len(params)} values" if isinstance(params, list) else None
    else:
        expected = "a mapping"
        names = ", ".join(map(str, params)) if isinstance(params, Mapping) else ""
        held = (names[:200] or "nothing") if isinstance(params, Mapping) else None
    if held is not None:
        why = f"params has {held}"
    elif params is None:
        why = f"params is missing (expected {expected})"
    else:
        found = "a list" if isinstance(params, list) else "a mapping"
        why = f"params is {found}, not {expected}"
    return ToolError("tool.contract", f"line {line}: no value for {mark}: {why}")


_WHOLE = {"int2": 2**15, "int4": 2**31, "int8": 2**63}
_TEXTS = frozenset({"text", "varchar", "bpchar", "name", "unknown", "json", "jsonb"})
_JSON = frozenset({"json[]", "jsonb[]"})


class Type(Protocol):
    """Type of the server, as described by the driver."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def schema(self) -> str: ...


def bind(value: JSON, type_: Type) -> tuple[object, str | None]:
    """Return the value for the driver, and the type to cast it to, or None."""
    if value is None:
        return None, None
    if type_.kind == "array":
        if isinstance(value, list):
            value = as_array(value, of_json=type_.name in _JSON)
        return as_text(value), cast_name(type_)
    if type_.name in _TEXTS and type_.schema == "pg_catalog":
        return as_text(value), None
    if type_.schema != "pg_catalog" and type_.kind == "scalar":
        return as_text(value), None  # enums and types of extensions are sent as text
    convert = _NUMBERS.get(type_.name)
    converted = None
    if convert is not None and isinstance(value, int | float | bool):
        converted = convert(value, type_.name)
    if converted is not None:
        return converted, None
    return as_text(value), cast_name(type_)


def cast_name(type_: Type) -> str:
    name, array = type_.name, ""
    if type_.kind == "array":
        name, array = name.removesuffix("[]"), "[]"
    return f"{quote_name(type_.schema)}.{quote_name(name)}{array}"


def to_boolean(value: float, name: str) -> object:
    return value if isinstance(value, bool) else None


def to_whole(value: float, name: str) -> object:
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        if not value.is_integer():
            return None
        value = int(value)
    limit = _WHOLE[name]
    return value if -limit <= value < limit else None


def to_float(value: float, name: str) -> object:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def to_decimal(value: float, name: str) -> object:
    if isinstance(value, bool):
        return None
    return Decimal(value) if isinstance(value, int) else Decimal(repr(value))


_NUMBERS: dict[str, Callable[[float, str], object]] = {
    "bool": to_boolean,
    "int2": to_whole,
    "int4": to_whole,
    "int8": to_whole,
    "float8": to_float,
    "numeric": to_decimal,
}
