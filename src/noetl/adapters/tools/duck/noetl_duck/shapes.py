"""How values of a type are read.

Some the driver cannot hand over whole: times with a zone, months of an interval,
infinity, nanoseconds. Such a column is cast by DuckDB itself, to its text.
"""

from __future__ import annotations

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
_LOST = frozenset({"timestamp with time zone", "timestamptz_ns", "interval", "variant"})
_PLAIN = frozenset(
    {
        *("boolean", "varchar", "enum", "bit", "null"),
        *("tinyint", "smallint", "integer", "bigint"),
        *("utinyint", "usmallint", "uinteger"),
    }
)
_NESTED = frozenset({"list", "array", "struct", "tuple", "map"})


class Shape(NamedTuple):
    """``cast`` is the type to cast to first, if any; without it something ``is_lost``.

    No ``read`` means: as it is.
    """

    cast: str | None = None
    read: Read | None = None
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
            cast = "VARCHAR" if any(member.cast for member in members) else None
            return Shape(cast, to_json, any(member.is_lost for member in members))
        case "varchar" if str(kind) == "JSON":
            return Shape(None, parse_json)
        case "variant":
            return Shape("JSON", parse_json, True)
        case "float":
            return Shape(None, shortest)
        case "interval" | "geometry":
            return Shape("VARCHAR", to_json, kind.id in _LOST)
        case time if time in _TIMES:
            return Shape("VARCHAR", moment, time in _LOST)
        case plain if plain in _PLAIN:
            return Shape()
        case _:
            return Shape(None, to_json)


def list_shape(kind: DuckDBPyType) -> Shape:
    children = dict(parts_of(kind))
    inner = shape_of(children["child"])
    cast = f"{cast_of(children['child'])}[{children.get('size', '')}]"
    read = inner.read

    def read_list(value: Any) -> Any:
        return list(value) if read is None else [_read(read, each) for each in value]

    return Shape(cast if inner.cast else None, read_list, inner.is_lost)


def struct_shape(kind: DuckDBPyType) -> Shape:
    shapes = {member: shape_of(part) for member, part in parts_of(kind)}
    parts = (f"{name(member)} {cast_of(part)}" for member, part in parts_of(kind))

    def read_struct(value: Any) -> Any:
        return {key: _read(shapes[key].read, each) for key, each in value.items()}

    return _joined(f"STRUCT({', '.join(parts)})", list(shapes.values()), read_struct)


def tuple_shape(kind: DuckDBPyType) -> Shape:
    shapes = [shape_of(part) for _, part in parts_of(kind)]
    parts = (cast_of(part) for _, part in parts_of(kind))

    def read_tuple(value: Any) -> Any:
        pairs = zip(shapes, value, strict=True)
        return [_read(shape.read, each) for shape, each in pairs]

    return _joined(f"TUPLE({', '.join(parts)})", shapes, read_tuple)


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

    cast = f"MAP({cast_of(children['key'])}, {cast_of(children['value'])})"
    return _joined(cast, [keys, members], read_map)


def parts_of(kind: DuckDBPyType) -> list[tuple[str, Any]]:
    return kind.children  # members are types, but the size of an array is a number


def cast_of(kind: DuckDBPyType) -> str:
    """The type to cast a part to; its own if it needs none."""
    if kind.id == "null":
        return "VARCHAR"
    return shape_of(kind).cast or str(kind)


def _joined(cast: str, parts: list[Shape], read: Read) -> Shape:
    is_lost = any(part.is_lost for part in parts)
    return Shape(cast if any(part.cast for part in parts) else None, read, is_lost)


def _read(read: Read | None, value: Any) -> Any:
    return value if read is None or value is None else read(value)
