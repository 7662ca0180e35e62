"""Values on their way out: what JSON can hold, and nothing lost."""

from __future__ import annotations

import binascii
import json
import math
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec

Read = Callable[[Any], Any]
"""From the driver's value, which is not None, to JSON's."""

_WHOLE = 2**63
_MOMENT = re.compile(r"(\d{4,}-\d\d-\d\d) (\d\d:\d\d:\d\d\S*)\Z")
_ZONE = re.compile(r"[+-]\d\d\Z")


def to_json(value: Any) -> Any:
    """Any value, by what the driver made of it."""
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
    """Beyond 64 bits no JSON reader is safe: then it is its digits."""
    return value if -_WHOLE <= value < _WHOLE else str(value)


def float_name(value: float) -> str:
    """JSON has no word for it, so it is a text that DuckDB reads again."""
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def shortest(value: float) -> float | str:
    """A FLOAT by the fewest digits that mean it: 1.1, not 1.100000023841858."""
    if not math.isfinite(value):
        return float_name(value)
    packed = struct.pack("!f", value)
    for digits in range(6, 9):
        short = float(f"{value:.{digits}g}")
        if struct.pack("!f", short) == packed:
            return short
    return value


def decimal_value(value: Decimal) -> int | float | str:
    """A number where it is the same number, and a text where digits would be lost."""
    if value == value.to_integral_value():
        return whole(int(value))
    number = float(value)
    return number if Decimal(repr(number)) == value else f"{value:f}"


def base64(value: bytes) -> str:
    return binascii.b2a_base64(value, newline=False).decode()


def moment(value: Any) -> str:
    """ISO 8601 from DuckDB's text; what that has no form for (BC, infinity) stays."""
    if not isinstance(value, str):
        return str(value.isoformat())
    found = _MOMENT.match(value)
    if found is None:
        return zoned(value) if ":" in value and "-" not in value[:4] else value
    return f"{found[1]}T{zoned(found[2])}"


def zoned(time: str) -> str:
    return f"{time}:00" if _ZONE.search(time) else time


def parse_json(text: str) -> Any:
    """A value of type JSON. A number too large for any float stays its text."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return json.loads(text, parse_float=finite_or_text)
    except RecursionError:
        return text  # whoever wants to look so deep still can


def finite_or_text(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


def key_text(key: Any) -> str:
    """The key of a map: JSON knows only texts."""
    value = to_json(key)
    return value if isinstance(value, str) else json.dumps(value)
