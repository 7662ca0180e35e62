"""Results as JSON, with the path of a value that JSON cannot represent."""

from __future__ import annotations

import json
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
    _check(value, [], set())
    try:
        data = _encode(value).encode()
    except (ValueError, UnicodeEncodeError):  # NaN or half a surrogate pair
        _find(value, [])
        raise
    if len(data) > limit:
        raise NotJson("result", f"is {len(data)} bytes of JSON, more than {limit}")
    return data


def _check(value: Any, path: list[str | int], above: set[int]) -> None:
    """Check types, keys, depth and cycles; scalars are left to the encoder."""
    kind = type(value)
    if kind in _SCALARS or isinstance(value, str | int | float):
        return
    if not isinstance(value, dict | list | tuple):
        raise NotJson(_show(path), f"is {_article(kind.__name__)}")
    if id(value) in above:
        raise NotJson(_show(path), "contains itself")
    if len(path) >= DEPTH:
        raise NotJson(_show(path[:8]) + "…", f"is nested deeper than {DEPTH} levels")
    above.add(id(value))
    path.append("")
    if isinstance(value, dict):
        for key, member in value.items():
            if not isinstance(key, str):
                what = f"has the key {key!r:.80}, which is not text"
                raise NotJson(_show(path[:-1]), what)
            if type(member) not in _SCALARS:
                path[-1] = key
                _check(member, path, above)
    else:
        for index, member in enumerate(value):
            if type(member) not in _SCALARS:
                path[-1] = index
                _check(member, path, above)
    path.pop()
    above.discard(id(value))


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
        raise NotJson(where, f"is {value}, which JSON cannot represent")
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
