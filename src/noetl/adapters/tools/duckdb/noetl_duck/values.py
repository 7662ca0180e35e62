"""Conversion of types to JSON.

The driver loses information of some types: times with a zone, months of an interval,
infinity, nanoseconds. DuckDB casts such a column to text.
"""

from __future__ import annotations

import binascii
import json
import math
import re
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
from duckdb.sqltypes import DuckDBPyType

from .errors import name

_TIMES = frozenset(
    {
        *("date", "time", "time_ns", "time with time zone"),
        *("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"),
        *("timestamp with time zone", "timestamptz_ns"),
    }
)
_LOST = frozenset({"timestamp with time zone", "timestamptz_ns", "interval"})
_PLAIN = frozenset(
    {
        *("boolean", "varchar", "enum", "bit"),
        *("tinyint", "smallint", "integer", "bigint"),
        *("utinyint", "usmallint", "uinteger"),
    }
)
_NESTED = frozenset({"list", "array", "struct", "tuple", "map"})


class Shape(NamedTuple):
    """``type`` is the type that the driver reads, after a cast if it ``is_cast``.

    ``is_lost`` if the driver loses information without the cast. Without ``read``, the
    value is used as it is.
    """

    type: str
    read: Read | None = None
    is_cast: bool = False
    is_lost: bool = False


def shape_of(kind: DuckDBPyType) -> Shape:
    match kind.id:
        case "list" | "array":
            return list_shape(kind)
        case "struct":
            return struct_shape(kind)
        case "tuple":
            return tuple_shape(kind)
        case "map":
            return map_shape(kind)
        case "union":
            members = [shape_of(member) for _, member in parts_of(kind)[1:]]
            joined = _joined("VARCHAR", members, to_json)
            return joined if joined.is_cast else joined._replace(type=str(kind))
        case "varchar" if str(kind) == "JSON":
            return Shape("JSON", parse_json)
        case "variant":
            return Shape("JSON", parse_json, is_cast=True, is_lost=True)
        case "float":
            return Shape("FLOAT", shortest)
        case "null":
            return Shape("VARCHAR")
        case "interval" | "geometry" as text:
            return Shape("VARCHAR", to_json, is_cast=True, is_lost=text in _LOST)
        case time if time in _TIMES:
            return Shape("VARCHAR", moment, is_cast=True, is_lost=time in _LOST)
        case plain if plain in _PLAIN:
            return Shape(str(kind))
        case _:
            return Shape(str(kind), to_json)


def list_shape(kind: DuckDBPyType) -> Shape:
    children = dict(parts_of(kind))
    inner = shape_of(children["child"])
    read = inner.read

    def read_list(value: Any) -> Any:
        return list(value) if read is None else [_read(read, each) for each in value]

    return _joined(f"{inner.type}[{children.get('size', '')}]", [inner], read_list)


def struct_shape(kind: DuckDBPyType) -> Shape:
    shapes = {member: shape_of(part) for member, part in parts_of(kind)}
    members = (f"{name(member)} {shape.type}" for member, shape in shapes.items())

    def read_struct(value: Any) -> Any:
        return {key: _read(shapes[key].read, each) for key, each in value.items()}

    parts = list(shapes.values())
    return _joined(f"STRUCT({', '.join(members)})", parts, read_struct)


def tuple_shape(kind: DuckDBPyType) -> Shape:
    shapes = [shape_of(part) for _, part in parts_of(kind)]
    members = ", ".join(shape.type for shape in shapes)

    def read_tuple(value: Any) -> Any:
        pairs = zip(shapes, value, strict=True)
        return [_read(shape.read, each) for shape, each in pairs]

    return _joined(f"TUPLE({members})", shapes, read_tuple)


def map_shape(kind: DuckDBPyType) -> Shape:
    """Return a mapping; with keys that are not scalars, a list of ``{key, value}``."""
    children = dict(parts_of(kind))
    keys, members = shape_of(children["key"]), shape_of(children["value"])
    has_scalar_keys = children["key"].id not in _NESTED

    def read_map(value: Any) -> Any:
        if has_scalar_keys:
            return {
                key_text(_read(keys.read, key)): _read(members.read, each)
                for key, each in value.items()
            }
        return [
            {"key": _read(keys.read, key), "value": _read(members.read, each)}
            for key, each in zip(value["key"], value["value"], strict=True)
        ]

    return _joined(f"MAP({keys.type}, {members.type})", [keys, members], read_map)


def parts_of(kind: DuckDBPyType) -> list[tuple[str, Any]]:
    return kind.children  # members are types, but the size of an array is a number


def _joined(type_: str, parts: Sequence[Shape], read: Read) -> Shape:
    is_cast = any(part.is_cast for part in parts)
    return Shape(type_, read, is_cast, any(part.is_lost for part in parts))


def _read(read: Read | None, value: Any) -> Any:
    return value if read is None or value is None else read(value)


Read = Callable[[Any], Any]
"""Converts a value of the driver, which is not None, to JSON."""

_WHOLE = 2**63
_MOMENT = re.compile(r"(\d{4,}-\d\d-\d\d) (\d\d:\d\d:\d\d\S*)\Z")
_ZONE = re.compile(r"[+-]\d\d\Z")


def to_json(value: Any) -> Any:
    """Convert any value of the driver."""
    match value:
        case None | bool() | str():
            return value
        case int():
            return whole(value)
        case float():
            return value if math.isfinite(value) else float_name(value)
        case Decimal():
            return decimal_value(value)
        case bytes() | bytearray() | memoryview():
            return base64(bytes(value))
        case dict():
            return {key_text(key): to_json(each) for key, each in value.items()}
        case list() | tuple():
            return [to_json(each) for each in value]
        case _ if hasattr(value, "isoformat"):
            return value.isoformat()
        case _:
            return str(value)  # uuid and the like


def whole(value: int) -> int | str:
    """Return a number, or its digits beyond 64 bits, which JSON readers may round."""
    return value if -_WHOLE <= value < _WHOLE else str(value)


def float_name(value: float) -> str:
    """Return a text for NaN and infinity, which DuckDB can read again."""
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def shortest(value: float) -> float | str:
    """Return a FLOAT with the fewest digits: 1.1, not 1.100000023841858."""
    if not math.isfinite(value):
        return float_name(value)
    packed = struct.pack("!f", value)
    for digits in range(6, 9):
        short = float(f"{value:.{digits}g}")
        if struct.pack("!f", short) == packed:
            return short
    return value


def decimal_value(value: Decimal) -> int | float | str:
    """Return a number if it is exact, else a text with all digits."""
    if value == value.to_integral_value():
        return whole(int(value))
    number = float(value)
    return number if Decimal(repr(number)) == value else f"{value:f}"


def base64(value: bytes) -> str:
    return binascii.b2a_base64(value, newline=False).decode()


def moment(value: Any) -> str:
    """Convert DuckDB's text to ISO 8601; BC and infinity stay as they are."""
    if not isinstance(value, str):
        return str(value.isoformat())
    found = _MOMENT.match(value)
    if found is None:
        return zoned(value) if ":" in value and "-" not in value[:4] else value
    return f"{found[1]}T{zoned(found[2])}"


def zoned(time: str) -> str:
    return f"{time}:00" if _ZONE.search(time) else time


def parse_json(text: str) -> Any:
    """Decode a value of type JSON; a number too large for a float stays a text."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return json.loads(text, parse_float=finite_or_text)
    except RecursionError:
        return text  # nested too deep to decode


def finite_or_text(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


def key_text(key: Any) -> str:
    """Return the key of a map as text, as JSON requires."""
    value = to_json(key)
    return value if isinstance(value, str) else json.dumps(value)
