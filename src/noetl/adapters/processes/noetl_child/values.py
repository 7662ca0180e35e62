"""Results as JSON, with the path of a value that JSON cannot represent.

Types of libraries are recognized by module and name, so that nothing is imported.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

DEPTH = 256
_SCALARS = frozenset({str, int, float, bool, type(None)})
_encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
).encode


class Encoded(bytes):
    """Result that is already JSON, made by code of NoETL."""


class NotJson(Exception):
    """Value that is not JSON; ``where`` is a path such as ``result.items[3]``."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where} {what}")


def encode(value: Any, limit: int) -> bytes:
    """Encode the value as JSON. Raises ``NotJson`` with the path of the fault."""
    if isinstance(value, Encoded):
        return value
    value = _plain(value, [], set())
    try:
        data = _encode(value).encode()
    except (ValueError, UnicodeEncodeError):  # NaN or half a surrogate pair
        _find(value, [])
        raise
    if len(data) > limit:
        raise NotJson("result", f"is {len(data)} bytes of JSON, more than {limit}")
    return data


def _plain(value: Any, path: list[str | int], above: set[int]) -> Any:
    """Return the value with members of other types converted; check keys, depth and
    cycles. Scalars are left to the encoder."""
    if type(value) in _SCALARS or isinstance(value, str | int | float):
        return value
    origin = value
    if not isinstance(value, dict | list | tuple):
        value = _converted(value, path)
        if not isinstance(value, dict | list):
            return _plain(value, path, above)
    if id(origin) in above:
        raise NotJson(_show(path), "contains itself")
    if len(path) >= DEPTH:
        raise NotJson(_show(path[:8]) + "…", f"is nested deeper than {DEPTH} levels")
    above.add(id(origin))
    path.append("")
    if isinstance(value, dict):
        value = _plain_mapping(value, path, above)
    else:
        value = _plain_list(value, path, above)
    if isinstance(origin, set | frozenset):
        value.sort(key=_order)
    path.pop()
    above.discard(id(origin))
    return value


def _plain_mapping(
    value: dict[Any, Any], path: list[str | int], above: set[int]
) -> dict[Any, Any]:
    changed: dict[str, Any] = {}
    for key, member in value.items():
        if not isinstance(key, str):
            what = f"has the key {key!r:.80}, which is not text; use str(key)"
            raise NotJson(_show(path[:-1]), what)
        if type(member) not in _SCALARS:
            path[-1] = key
            plain = _plain(member, path, above)
            if plain is not member:
                changed[key] = plain
    return {**value, **changed} if changed else value


def _plain_list(value: Any, path: list[str | int], above: set[int]) -> Any:
    changed: list[Any] | None = None
    for index, member in enumerate(value):
        if type(member) not in _SCALARS:
            path[-1] = index
            plain = _plain(member, path, above)
            if plain is not member:
                changed = list(value) if changed is None else changed
                changed[index] = plain
    return value if changed is None else changed


def _converted(value: Any, path: list[str | int]) -> Any:
    """Return a scalar, or a container of members that are not converted yet."""
    kind = type(value)
    for base in kind.__mro__:
        convert = _CONVERSIONS.get((base.__module__, base.__qualname__))
        if convert is not None:
            return convert(value)
    if hasattr(kind, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in kind.__dataclass_fields__}
    raise NotJson(_show(path), f"is {_article(kind.__name__)}; {_cure(kind)}")


def _iso(value: Any) -> str | None:
    """Format a date or time as ISO 8601, its fraction without zeros at the end."""
    text: str = value.isoformat()
    if text == "NaT":  # of pandas
        return None
    head, point, rest = text.partition(".")
    if not point:
        return text
    digits = len(rest) - len(rest.lstrip("0123456789"))
    fraction = rest[:digits].rstrip("0")
    return head + (f".{fraction}" if fraction else "") + rest[digits:]


def _duration(value: Any) -> str | None:
    """Format ``P1DT2H3M4.5S``; every part has the sign of the whole."""
    if not hasattr(value, "days"):
        return None
    total = (value.days * 86_400 + value.seconds) * 10**6 + value.microseconds
    total = total * 1000 + getattr(value, "nanoseconds", 0)  # of pandas
    sign, total = ("-", -total) if total < 0 else ("", total)
    seconds, rest = divmod(total, 10**9)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    fraction = f".{rest:09}".rstrip("0") if rest else ""
    second = f"{sign}{seconds}{fraction}S" if seconds or rest else ""
    time = (f"{sign}{hours}H" if hours else "") + (
        f"{sign}{minutes}M" if minutes else ""
    )
    text = (f"{sign}{days}D" if days else "") + ("T" if time + second else "")
    return "P" + (text + time + second or "T0S")


def _decimal(value: Any) -> Any:
    """Return a number if it is exact, else a text with all digits."""
    if not value.is_finite():
        return float(value)  # refused like a float
    if value == value.to_integral_value():
        return int(value) if -_WHOLE <= value < _WHOLE else f"{value:f}"
    number = float(value)
    return number if type(value)(repr(number)) == value else f"{value:f}"


def _numpy_time(value: Any) -> str | None:
    text = str(value)
    if text == "NaT":
        return None
    head, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    return f"{head}.{fraction}" if fraction else head


_WHOLE = 2**63
_CONVERSIONS: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("builtins", "set"): list,
    ("builtins", "frozenset"): list,
    ("datetime", "datetime"): _iso,
    ("datetime", "date"): _iso,
    ("datetime", "time"): _iso,
    ("datetime", "timedelta"): _duration,
    ("decimal", "Decimal"): _decimal,
    ("uuid", "UUID"): str,
    ("enum", "Enum"): lambda value: value.value,
    ("numpy", "datetime64"): _numpy_time,
    ("numpy", "timedelta64"): lambda value: value.astype("timedelta64[us]").item(),
    ("numpy", "bool"): bool,
    ("numpy", "bool_"): bool,
    ("numpy", "integer"): int,
    ("numpy", "floating"): float,
    ("numpy", "str_"): str,
}
_CURES = {
    ("builtins", "bytes"): "return value.decode(), or base64.b64encode(value).decode()",
    ("builtins", "bytearray"): "return value.decode()",
    ("builtins", "generator"): "return list(value)",
    ("builtins", "range"): "return list(value)",
    ("builtins", "dict_keys"): "return list(value)",
    ("builtins", "dict_values"): "return list(value)",
    ("collections", "deque"): "return list(value)",
    ("builtins", "complex"): "return [value.real, value.imag]",
    ("numpy", "ndarray"): "return value.tolist()",
    ("pandas", "DataFrame"): "return value.to_dict('records')",
    ("pandas.core.frame", "DataFrame"): "return value.to_dict('records')",
    ("pandas.core.series", "Series"): "return value.tolist()",
    ("pathlib", "PurePath"): "return str(value)",
    ("pathlib._local", "PurePath"): "return str(value)",  # of Python 3.13
}


def _cure(kind: type) -> str:
    for base in kind.__mro__:
        cure = _CURES.get((base.__module__, base.__qualname__))
        if cure is not None:
            return cure
    if hasattr(kind, "model_dump"):
        return "return value.model_dump()"
    return "return text, numbers, lists or mappings of it"


def _order(value: Any) -> tuple[str, Any]:
    """Return a sort key, so that a set has the same order in every process."""
    if isinstance(value, int | float):
        return "", value
    if isinstance(value, str):
        return "text", value
    return "value", _encode(value)


def _find(value: Any, path: list[str | int]) -> None:
    """Raise for the first scalar that the encoder refuses."""
    if isinstance(value, dict):
        for key, member in value.items():
            _find_scalar(key, path, "has a key that ")
            _find(member, [*path, key])
    elif isinstance(value, list | tuple):
        for index, member in enumerate(value):
            _find(member, [*path, index])
    else:
        _find_scalar(value, path)


def _find_scalar(value: Any, path: list[str | int], prefix: str = "") -> None:
    where = _show(path)
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            what = "is text with half a surrogate pair, which UTF-8 cannot encode"
            raise NotJson(where, prefix + what) from None
    elif isinstance(value, float) and (value != value or abs(value) == float("inf")):
        raise NotJson(where, f"is {value}, which JSON cannot represent; use None")
    elif isinstance(value, int):
        try:
            str(int(value))
        except ValueError:
            raise NotJson(where, "is an integer of too many digits") from None


def _show(path: list[str | int]) -> str:
    text = "result"
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if part.isidentifier() else f"[{part!r:.80}]"
    return text.encode(errors="backslashreplace").decode()


def _article(name: str) -> str:
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"
