"""Times of day: the next moment at which the clocks of a zone show one."""

from __future__ import annotations

import math
import re
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo, available_timezones

from noetl.dsl.diagnostics import nearest
from noetl.dsl.node import shorten

UTC = "UTC"
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?\Z")


def parse_time(text: str) -> time:
    """Parse ``09:00`` or ``09:00:30``. Raises ``ValueError`` with a message."""
    found = _TIME.match(text)
    if found is None:
        message = f"'{shorten(text, 40)}' is not a time of day: write it as 09:00"
        raise ValueError(message)
    hour, minute, second = found.groups(default="0")
    return time(int(hour), int(minute), int(second))


def find_zone(name: str) -> ZoneInfo:
    """Return a zone of the time zone database. Raises ``ValueError`` with a message."""
    try:
        return ZoneInfo(name)
    except (ValueError, KeyError, OSError):  # an unknown name, an empty name, a folder
        similar = _nearest_zone(name)
        hint = f"did you mean '{similar}'?" if similar else "write it as Europe/Berlin"
        message = f"unknown time zone '{shorten(name, 40)}'; {hint}"
        raise ValueError(message) from None


def _nearest_zone(name: str) -> str | None:
    """Return the nearest name, of the same region if that is known."""
    region = name.partition("/")[0].lower()
    zones = sorted(available_timezones())
    same = [each for each in zones if each.partition("/")[0].lower() == region]
    return nearest(name, same or zones)


def next_time(at: str, zone: str, now: float) -> float:
    """Return the first moment after ``now`` at which the zone's clocks show ``at``.

    A time that a clock change skips comes later by the change; for one that occurs
    twice the first counts. So each day has exactly one.
    """
    clock, place = parse_time(at), find_zone(zone)
    today = datetime.fromtimestamp(now, place).date()
    moments = (
        datetime.combine(today + timedelta(days), clock, place).timestamp()
        for days in (-1, 0, 1, 2)
    )
    return next(moment for moment in moments if moment > now)


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
_TEXT = re.compile(r"\s*+([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*+(ms|s|m|h|d|)\s*+\Z")


MIN_RETENTION_S = 60.0


def parse_duration(value: object) -> float:
    """Return the seconds. Raises ``ValueError`` with a message for the author."""
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


def parse_retention(value: object) -> float:
    """Return the seconds for which executions are kept. Raises ``ValueError`` with a
    message for the author."""
    seconds = parse_duration(value)
    if seconds < MIN_RETENTION_S:
        raise ValueError(f"{value} is shorter than a minute, the minimum")
    return seconds


def _checked(seconds: float, value: object) -> float:
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{value} is not a duration: it must be 0 or more")
    return seconds
