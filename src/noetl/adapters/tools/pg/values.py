"""Values on their way from the server: everything becomes JSON, and loses nothing."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from noetl.adapters.tools.pg import times
from noetl.errors import ToolError
from noetl.types import JSON

_SPECIAL = frozenset(' \t\n\r\f\v"\\,()[]{}')
_WHOLE = 2**63


def to_json(value: Any) -> JSON:
    """A value of the driver as JSON has it."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else float_name(value)
        case Decimal():
            return decimal_value(value)
        case bytes():
            return "\\x" + value.hex()
        case dict():
            return value  # JSON, parsed already
        case list() | tuple():
            return [to_json(each) for each in value]
        case _ if hasattr(value, "lower_inc"):
            return range_text(value)
        case _ if hasattr(value, "keys"):
            return {name: to_json(each) for name, each in value.items()}
        case _ if hasattr(value, "points"):
            return [to_json(point) for point in value.points]
        case _ if hasattr(value, "as_string"):
            return value.as_string().replace(" ", "")  # bits
        case _:
            return str(value)


def float_name(value: float) -> str:
    """JSON has no word for it, so it is the text that PostgreSQL prints and reads."""
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def decimal_value(value: Decimal) -> JSON:
    """A number where it is the same number, and a text where digits would be lost."""
    if not value.is_finite():
        return float_name(float(value))
    if value == value.to_integral_value():
        return int(value) if -_WHOLE <= value < _WHOLE else f"{value:f}"
    number = float(value)
    return number if Decimal(repr(number)) == value else f"{value:f}"


def range_text(value: Any) -> str:
    """As PostgreSQL writes it: ``[1,5)``, ``(,2024-01-01]``, ``empty``."""
    if value.isempty:
        return "empty"
    first = "[" if value.lower_inc else "("
    last = "]" if value.upper_inc else ")"
    return f"{first}{bound_text(value.lower)},{bound_text(value.upper)}{last}"


def bound_text(value: Any) -> str:
    if value is None:
        return ""
    text = str(to_json(value))
    if text and not _SPECIAL & set(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'


def parse_json(data: bytes) -> JSON:
    """A json or jsonb value. A number too large for any float stays its text."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        pass
    except RecursionError:
        raise too_deep() from None
    try:
        return json.loads(data, parse_float=finite_or_text)
    except RecursionError:
        raise too_deep() from None


def finite_or_text(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


def too_deep() -> ToolError:
    message = "a JSON value is nested too deeply: select it as text (column::text)"
    return ToolError("pg.decode", message)


def shortest(data: bytes) -> float:
    """A float4 by the fewest digits that mean it: 1.1, not 1.100000023841858."""
    number: float = struct.unpack("!f", data)[0]
    if not math.isfinite(number):
        return number
    for digits in range(6, 10):
        short = float(f"{number:.{digits}g}")
        if struct.pack("!f", short) == data:
            return short
    return number


def not_sent(value: object) -> Any:
    raise TypeError("such a value goes as text")  # see binding.py


class Codec(msgspec.Struct, frozen=True):
    """How the driver reads a type, where its own way would lose something."""

    format: str
    decode: Callable[[Any], JSON]
    encode: Callable[[Any], Any] = not_sent


CODECS: Mapping[str, Codec] = {
    "date": Codec("tuple", times.date_text),
    "time": Codec("tuple", times.time_text),
    "timetz": Codec("tuple", times.timetz_text),
    "timestamp": Codec("tuple", times.timestamp_text),
    "timestamptz": Codec("tuple", times.timestamptz_text),
    "interval": Codec("tuple", times.interval_text),
    "float4": Codec("binary", shortest),
    "json": Codec("binary", parse_json, str.encode),
    # A version number comes first.
    "jsonb": Codec(
        "binary", lambda data: parse_json(data[1:]), lambda text: b"\1" + text.encode()
    ),
    "pg_lsn": Codec(
        "binary", lambda data: "{:X}/{:X}".format(*struct.unpack("!II", data))
    ),
}


def reader_of(type_name: str) -> Callable[[Any], JSON]:
    """How values of a column are read; the driver calls ``"char"`` bytes."""
    return letter if type_name == "char" else to_json


def letter(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def unique(names: list[str]) -> list[str]:
    """Column names as keys: the second ``id`` is ``id_2``, unless that is taken."""
    taken = set(names)
    found: list[str] = []
    seen: set[str] = set()
    for name in names:
        number = 2
        key = name
        while key in seen or (key != name and key in taken):
            key = f"{name}_{number}"
            number += 1
        seen.add(key)
        found.append(key)
    return found
