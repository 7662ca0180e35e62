"""``spec.timeout`` of a request: one number, or one for each phase."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl.dsl.durations import parse_duration
from noetl.errors import ToolError
from noetl.types import JSON


class Timeouts(msgspec.Struct, frozen=True):
    """Seconds; None is no end. ``total`` covers all redirects together."""

    connect: float | None = 10.0
    read: float | None = 60.0
    total: float | None = 300.0


def read_timeouts(spec: Mapping[str, JSON]) -> Timeouts:
    value = spec.get("timeout")
    if value is None:
        return Timeouts()
    if not isinstance(value, Mapping):
        return Timeouts(total=_seconds(value, ""))
    unknown = value.keys() - {"connect", "read", "total"}
    if unknown:
        message = f"spec.timeout: unknown phase '{min(unknown)}'"
        raise ToolError("tool.contract", f"{message} (connect, read, total)")
    return Timeouts(**{phase: _seconds(part, phase) for phase, part in value.items()})


def _seconds(value: JSON, phase: str) -> float | None:
    if value is None:
        return None
    try:
        return parse_duration(value)
    except ValueError as error:
        where = f"spec.timeout.{phase}".rstrip(".")
        raise ToolError("tool.contract", f"{where}: {error}") from None
