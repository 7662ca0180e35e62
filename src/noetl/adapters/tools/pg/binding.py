"""Values on their way to the server: bound, never written into the SQL.

What the driver can encode for the parameter's type goes as it is. Anything else goes as
text that the server casts, so a text means what the same literal would mean.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Protocol

from noetl.adapters.tools.pg.literals import as_array, as_text, quote_name
from noetl.types import JSON

_WHOLE = {"int2": 2**15, "int4": 2**31, "int8": 2**63}
_TEXTS = frozenset({"text", "varchar", "bpchar", "name", "unknown", "json", "jsonb"})
_JSON = frozenset({"json[]", "jsonb[]"})


class Type(Protocol):
    """A type of the server, as the driver names it."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def schema(self) -> str: ...


def bind(value: JSON, type_: Type) -> tuple[object, str | None]:
    """What the driver is given, and the type the server casts it to, if it must."""
    if value is None:
        return None, None
    if type_.kind == "array":
        if isinstance(value, list):
            value = as_array(value, of_json=type_.name in _JSON)
        return as_text(value), cast_name(type_)
    if type_.name in _TEXTS and type_.schema == "pg_catalog":
        return as_text(value), None
    if type_.schema != "pg_catalog" and type_.kind == "scalar":
        return as_text(value), None  # enums and types of extensions travel as text
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
