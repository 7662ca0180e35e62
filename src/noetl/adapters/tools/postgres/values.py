"""Conversion of values of the server to JSON without loss, times as ISO 8601 texts."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from noetl.errors import ToolError
from noetl.types import JSON

_DAY = 86_400_000_000  # microseconds
_EPOCH = 730_425  # days from 0000-03-01 to 2000-01-01, the epoch of PostgreSQL
_ERA = 146_097  # days of 400 years
_NEVER_DAY = {2**31 - 1: "infinity", -(2**31): "-infinity"}
_NEVER = {2**63 - 1: "infinity", -(2**63): "-infinity"}
_NEVER_SPAN = {
    (2**31 - 1, 2**31 - 1, 2**63 - 1): "infinity",
    (-(2**31), -(2**31), -(2**63)): "-infinity",
}


def date_text(parts: tuple[int]) -> str:
    """Format ``2024-02-29``, ``0044-03-15 BC`` or ``infinity``."""
    if parts[0] in _NEVER_DAY:
        return _NEVER_DAY[parts[0]]
    day, era = calendar(parts[0])
    return day + era


def timestamp_text(parts: tuple[int]) -> str:
    return moment(parts[0], "")


def timestamptz_text(parts: tuple[int]) -> str:
    """Format in UTC, independently of the session's time zone."""
    return moment(parts[0], "+00:00")


def moment(microseconds: int, zone: str) -> str:
    if microseconds in _NEVER:
        return _NEVER[microseconds]
    days, rest = divmod(microseconds, _DAY)
    day, era = calendar(days)
    return f"{day}T{clock(rest)}{zone}{era}"


def time_text(parts: tuple[int]) -> str:
    return clock(parts[0])


def timetz_text(parts: tuple[int, int]) -> str:
    offset = -parts[1]  # PostgreSQL counts seconds west of Greenwich
    hours, seconds = divmod(abs(offset), 3600)
    sign = "-" if offset < 0 else "+"
    zone = f"{sign}{hours:02}:{seconds // 60:02}"
    if seconds % 60:
        zone += f":{seconds % 60:02}"
    return clock(parts[0]) + zone


def interval_text(parts: tuple[int, int, int]) -> str:
    """Format ``P1Y2M3DT4H5M6.7S``; months, days and time each have a sign."""
    if parts in _NEVER_SPAN:
        return _NEVER_SPAN[parts]
    months, days, microseconds = parts
    years, months = truncated(months, 12)
    minutes, microseconds = truncated(microseconds, 60_000_000)
    hours, minutes = truncated(minutes, 60)
    day = named((years, "Y"), (months, "M"), (days, "D"))
    time = named((hours, "H"), (minutes, "M"))
    if microseconds:
        whole, rest = truncated(microseconds, 1_000_000)
        sign = "-" if microseconds < 0 else ""
        time += f"{sign}{abs(whole)}{fraction(abs(rest))}S"
    if time:
        time = "T" + time
    return "P" + (day + time or "T0S")


def named(*parts: tuple[int, str]) -> str:
    return "".join(f"{number}{unit}" for number, unit in parts if number)


def truncated(number: int, unit: int) -> tuple[int, int]:
    """Divide towards zero, so that both parts have the sign of the number."""
    whole = abs(number) // unit
    if number < 0:
        whole = -whole
    return whole, number - whole * unit


def calendar(days: int) -> tuple[str, str]:
    """Return the day and its era; years start in March, so leap days come last."""
    era, day = divmod(days + _EPOCH, _ERA)
    of_era = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * of_era + of_era // 4 - of_era // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    month = month + 3 if month < 10 else month - 9
    year = era * 400 + of_era + (month <= 2)
    if year > 0:
        return f"{year:04}-{month:02}-{day + 1:02}", ""
    return f"{1 - year:04}-{month:02}-{day + 1:02}", " BC"


def clock(microseconds: int) -> str:
    seconds, rest = divmod(microseconds, 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}{fraction(rest)}"


def fraction(microseconds: int) -> str:
    return f".{microseconds:06}".rstrip("0") if microseconds else ""


_SPECIAL = frozenset(' \t\n\r\f\v"\\,()[]{}')
_WHOLE = 2**63


def to_json(value: Any) -> JSON:
    """Convert a value of the driver to JSON."""
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
            return value  # already parsed JSON
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
    """Return PostgreSQL's text for NaN and infinity."""
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def decimal_value(value: Decimal) -> JSON:
    """Return a number if it is exact, else a text with all digits."""
    if not value.is_finite():
        return float_name(float(value))
    if value == value.to_integral_value():
        return int(value) if -_WHOLE <= value < _WHOLE else f"{value:f}"
    number = float(value)
    return number if Decimal(repr(number)) == value else f"{value:f}"


def range_text(value: Any) -> str:
    """Format a range as PostgreSQL: ``[1,5)``, ``(,2024-01-01]``, ``empty``."""
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
    """Decode json or jsonb; a number too large for a float stays a text."""
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
    """Return a float4 with the fewest digits: 1.1, not 1.100000023841858."""
    number: float = struct.unpack("!f", data)[0]
    if not math.isfinite(number):
        return number
    for digits in range(6, 10):
        short = float(f"{number:.{digits}g}")
        if struct.pack("!f", short) == data:
            return short
    return number


def not_sent(value: object) -> Any:
    raise TypeError("such a value is sent as text")  # see binding.py


class Codec(msgspec.Struct, frozen=True):
    """Codec for a type whose default codec of the driver loses information."""

    format: str
    decode: Callable[[Any], JSON]
    encode: Callable[[Any], Any] = not_sent


CODECS: Mapping[str, Codec] = {
    "date": Codec("tuple", date_text),
    "time": Codec("tuple", time_text),
    "timetz": Codec("tuple", timetz_text),
    "timestamp": Codec("tuple", timestamp_text),
    "timestamptz": Codec("tuple", timestamptz_text),
    "interval": Codec("tuple", interval_text),
    "float4": Codec("binary", shortest),
    "json": Codec("binary", parse_json, str.encode),
    # jsonb starts with a version number.
    "jsonb": Codec(
        "binary", lambda data: parse_json(data[1:]), lambda text: b"\1" + text.encode()
    ),
    "pg_lsn": Codec(
        "binary", lambda data: "{:X}/{:X}".format(*struct.unpack("!II", data))
    ),
}


def reader_of(type_name: str) -> Callable[[Any], JSON]:
    """Return the reader of a column's type; the driver returns ``"char"`` as bytes."""
    return letter if type_name == "char" else to_json


def letter(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def unique(names: list[str]) -> list[str]:
    """Make column names unique: the second ``id`` is ``id_2``, unless that exists."""
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
