"""How values of a type are read.

Some the driver cannot hand over whole: times with a zone, months of an interval,
infinity, nanoseconds. Such a column is cast by DuckDB itself, to its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from duckdb.sqltypes import DuckDBPyType

from .quoting import name
from .values import Read, key_text, moment, parse_json, shortest, to_json

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
    """``type`` is what the driver gets to see, after a cast if it ``is_cast``.

    Without the cast something ``is_lost``. No ``read`` means: as it is.
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
    """A mapping; where keys are no scalars, a list of ``{key, value}``."""
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
