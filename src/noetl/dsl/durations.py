"""Durations: a number of seconds, or ``<n>(ms|s|m|h|d)``."""

from __future__ import annotations

import math
import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
_TEXT = re.compile(r"\s*+([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*+(ms|s|m|h|d|)\s*+\Z")


def parse_duration(value: object) -> float:
    """Seconds. Raises ``ValueError`` with a sentence for its author."""
    if isinstance(value, bool) or value is None:
        raise ValueError(f"{value!r} is not a duration")
    if isinstance(value, int | float):
        return _checked(float(value), value)
    if isinstance(value, str):
        found = _TEXT.match(value) if len(value) <= 64 else None
        if found:
            number, unit = found.groups()
            return _checked(float(number) * _UNITS[unit], value)
        shown = value if len(value) <= 40 else value[:40] + "…"
        raise ValueError(f"'{shown}' is not a duration")
    raise ValueError(f"a {type(value).__name__} is not a duration")


def _checked(seconds: float, value: object) -> float:
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{value} is not a duration: it must be 0 or more")
    return seconds
