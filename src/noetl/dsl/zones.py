"""Times of day: the next moment at which the clocks of a zone show one."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo, available_timezones

from noetl.dsl.diagnostics import nearest
from noetl.dsl.node import shorten

UTC = "UTC"
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?\Z")


def parse_time(text: str) -> time:
    """``09:00`` or ``09:00:30``. Raises ``ValueError`` with a sentence."""
    found = _TIME.match(text)
    if found is None:
        message = f"'{shorten(text, 40)}' is not a time of day: write it as 09:00"
        raise ValueError(message)
    hour, minute, second = found.groups(default="0")
    return time(int(hour), int(minute), int(second))


def find_zone(name: str) -> ZoneInfo:
    """By its name in the time zone database. Raises ``ValueError`` with a sentence."""
    try:
        return ZoneInfo(name)
    except (ValueError, KeyError, OSError):  # unknown, no name at all, a folder
        similar = _nearest_zone(name)
        hint = f"did you mean '{similar}'?" if similar else "write it as Europe/Berlin"
        message = f"there is no time zone '{shorten(name, 40)}'; {hint}"
        raise ValueError(message) from None


def _nearest_zone(name: str) -> str | None:
    """Of the same region, if that is right: there are hundreds of zones."""
    region = name.partition("/")[0].lower()
    zones = sorted(available_timezones())
    same = [each for each in zones if each.partition("/")[0].lower() == region]
    return nearest(name, same or zones)


def next_time(at: str, zone: str, now: float) -> float:
    """The first moment after ``now`` at which it is that time there.

    A time that a change of the clocks leaves out comes as much later as they are put
    forward; of one that comes twice the first counts. So each day has it once.
    """
    clock, place = parse_time(at), find_zone(zone)
    today = datetime.fromtimestamp(now, place).date()
    moments = (
        datetime.combine(today + timedelta(days), clock, place).timestamp()
        for days in (-1, 0, 1, 2)
    )
    return next(moment for moment in moments if moment > now)
