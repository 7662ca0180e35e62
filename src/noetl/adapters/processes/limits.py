"""The knobs that bound a call: how long, how much memory and disk."""

from __future__ import annotations

import re
from collections.abc import Mapping

from noetl.dsl.durations import parse_duration
from noetl.errors import ToolError
from noetl.types import JSON

_SIZE = re.compile(r"\s*+([0-9]+(?:\.[0-9]+)?)\s*+([KMGT]?)(i?)B?\s*+\Z", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_LARGEST = 2**50


def read_timeout(spec: Mapping[str, JSON]) -> float | None:
    """Seconds, or None for no end. A mapping gives them as ``total``."""
    value = spec.get("timeout")
    if isinstance(value, Mapping):
        value = value.get("total")
    if value is None:
        return None
    try:
        return parse_duration(value)
    except ValueError as error:
        raise ToolError("tool.contract", f"spec.timeout: {error}") from None


ISOLATIONS = ("warm", "fresh", "required")


def read_isolation(spec: Mapping[str, JSON]) -> str:
    """``warm``, ``fresh`` or ``required``."""
    isolation = spec.get("isolation", "warm")
    if isolation not in ISOLATIONS:
        message = f"spec.isolation: {isolation!r:.40} is not warm, fresh or required"
        raise ToolError("tool.contract", message)
    return str(isolation)


def read_memory(spec: Mapping[str, JSON]) -> int | None:
    """Bytes, or None for no limit."""
    return read_size(spec, "memory")


def read_disk(spec: Mapping[str, JSON]) -> int | None:
    """Bytes of one file, or None for no limit."""
    return read_size(spec, "disk")


def read_size(spec: Mapping[str, JSON], name: str) -> int | None:
    """Bytes, or None if not given. ``512MiB`` and ``512MB`` differ as they should."""
    value = spec.get(name)
    if value is None:
        return None
    found = _SIZE.match(str(value)) if not isinstance(value, bool) else None
    if found is None:
        message = f"spec.{name}: {value!r:.40} is no size such as 512MiB"
        raise ToolError("tool.contract", message)
    number, unit, binary = found.groups()
    size = int(float(number) * (1024 if binary else 1000) ** _POWERS[unit.upper()])
    return min(max(size, 1), _LARGEST)
