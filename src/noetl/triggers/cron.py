"""Cron lines in a zone: the next moment after any moment, in seconds since the epoch.

A line with fixed minutes and hours is about the clock on the wall. When that clock is
put forward over one of its times, the slot is the first moment after the gap; when it
is put back, the slot is the first of the two. A line with a star for minutes or hours
goes by the time that passes: nothing is skipped, and the hour that is there twice has
its slots twice.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from zoneinfo import ZoneInfo

_FIELDS = ("minute", "hour", "day of the month", "month", "day of the week")
_LINE = re.compile(r"[0-9A-Za-z*/,#\- ]{1,200}\Z")
_ZONE = re.compile(r"[A-Za-z0-9_+/-]{1,64}\Z")
_LAST = 253_000_000_000.0
"""Close to the end of the calendar there is nothing to reckon with."""
_CLOSE = 7_200.0


def _cronsim() -> ModuleType:
    """It comes with the extra `server`: only servers have schedules."""
    try:
        return import_module("cronsim")
    except ModuleNotFoundError:
        message = "schedules need the package cronsim; run: pip install '.[server]'"
        raise ValueError(f"{message} in a checkout of NoETL") from None


class Cron:
    """A line and its zone. Raises ``ValueError`` with a sentence for its author."""

    def __init__(self, line: str, zone: str) -> None:
        self.line = _check(line)
        self.zone = _zone(zone)

    def next(self, after: float) -> float | None:
        """The first slot later than this; None if there is none for 50 years."""
        if after > _LAST:
            return None
        slot = self._next(after)
        if slot is None:
            return None
        # Reckoned from the moment of a change by half an hour, it may be off by that:
        # whoever asks from close by sees the clock as it is then.
        nearer = self._next(max(after, slot - _CLOSE))
        return slot if nearer is None else min(slot, nearer)

    def _next(self, after: float) -> float | None:
        cronsim = _cronsim()
        slots = cronsim.CronSim(self.line, datetime.fromtimestamp(after, self.zone))
        for slot in slots:
            # In the hour that is there twice, the first may be over already.
            moment: float = slot.timestamp()
            if moment > after:
                return moment
        return None

    def local(self, moment: float) -> datetime:
        return datetime.fromtimestamp(moment, self.zone)


def _check(line: str) -> str:
    fields = line.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(
            f"a cron line has five fields ({', '.join(_FIELDS)}), found {len(fields)}"
        )
    if _LINE.match(line) is None:
        raise ValueError("a cron line has digits, names, and * / , - # and L")
    if not _is_sound(line):
        raise ValueError(_bad_field(fields))
    return " ".join(fields)


def _is_sound(line: str) -> bool:
    cronsim = _cronsim()
    try:
        cronsim.CronSim(line, datetime(2000, 1, 1, tzinfo=UTC))
    except (cronsim.CronSimError, AssertionError, TypeError, ValueError):
        return False
    return True


def _bad_field(fields: list[str]) -> str:
    """Which of them it is: one at a time among stars."""
    for number, field in enumerate(fields):
        alone = ["*"] * len(fields)
        alone[number] = field
        if not _is_sound(" ".join(alone)):
            return f"'{field[:40]}' is no {_FIELDS[number]}"
    return "no month has such a day"


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo:
    try:
        if _ZONE.match(name) is None:
            raise ValueError
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise ValueError(f"there is no time zone '{name[:64]}'") from None
