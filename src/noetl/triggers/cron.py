"""Cron lines in a zone: the next moment after any moment, in seconds since the epoch.

A line with fixed minutes and hours follows local time. When the clock is put forward
over one of its times, the slot is the first moment after the gap; when it is put back,
the slot is the first of the two. A line with a star for minutes or hours follows
elapsed time: nothing is skipped, and the repeated hour has its slots twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from zoneinfo import ZoneInfo

from noetl.extras import install_command
from noetl.triggers.inputs import TriggerError

_FIELDS = ("minute", "hour", "day of the month", "month", "day of the week")
_LINE = re.compile(r"[0-9A-Za-z*/,#\- ]{1,200}\Z")
_ZONE = re.compile(r"[A-Za-z0-9_+/-]{1,64}\Z")
_LAST = 253_000_000_000.0
"""Last moment for which slots are computed, close to the calendar's end."""
_CLOSE = timedelta(hours=3)
"""Upper bound of a clock change."""


def _cronsim() -> ModuleType:
    """Import cronsim, which comes with the extra `server`: only servers have
    schedules. Raises ``TriggerError``."""
    try:
        return import_module("cronsim")
    except ModuleNotFoundError:
        message = "this server has no schedules: the package cronsim is missing there"
        hint = f"run: {install_command('server')}, and start the server again"
        raise TriggerError("schedule", message, hint) from None


class Cron:
    """Cron line with its zone. Raises ``ValueError`` with a message for the author."""

    def __init__(self, line: str, zone: str) -> None:
        self.line = _check(line)
        self.zone = _zone(zone)

    def next(self, after: float) -> float | None:
        """Return the first slot later than ``after``; None if there is none for 50
        years.

        Away from a clock change the slot is the next matching local time. Around a
        change each local time is looked up: it may occur twice, or not at all.
        """
        if after > _LAST:
            return None
        start = self.local(after)
        wall = next(self._walls(start), None)
        if wall is None:
            return None
        slot = wall.replace(tzinfo=self.zone)
        if self._is_steady(start) and self._is_steady(slot):
            return slot.timestamp()
        return _around_change(self.line, self.zone, after)

    def look_up(self, after: float) -> float | None:
        """Return the first slot later than ``after``, close to a clock change."""
        found: float | None = None
        for wall in self._walls(self.local(after) - _CLOSE):
            if found is not None and wall > _plain(self.local(found)) + _CLOSE:
                break  # all that come now are later
            later = [moment for moment in self._moments(wall) if moment > after]
            found = min([*later, *([] if found is None else [found])], default=None)
        return found

    def _walls(self, after: datetime) -> Iterator[datetime]:
        """Yield the local times of slots, ignoring changes of the clock."""
        yield from map(
            _plain, _cronsim().CronSim(self.line, _plain(after).replace(tzinfo=UTC))
        )

    def _moments(self, wall: datetime) -> list[float]:
        first, second = (
            wall.replace(tzinfo=self.zone, fold=fold).timestamp() for fold in (0, 1)
        )
        if first <= second:  # once, or twice
            return sorted({first, second}) if self._goes_by_time else [first]
        return [] if self._goes_by_time else [self._end_of_gap(second, first)]

    def _end_of_gap(self, before: float, after: float) -> float:
        old = self.local(before).utcoffset()
        while after - before > 1:
            middle = (before + after) // 2
            if self.local(middle).utcoffset() == old:
                before = middle
            else:
                after = middle
        return after

    def _is_steady(self, moment: datetime) -> bool:
        seconds = moment.timestamp()
        around = (seconds - _CLOSE.total_seconds(), seconds + _CLOSE.total_seconds())
        return len({self.local(each).utcoffset() for each in around}) == 1

    @property
    def _goes_by_time(self) -> bool:
        minute, hour, *_ = self.line.split()
        return minute.startswith("*") or hour.startswith("*")

    def local(self, moment: float) -> datetime:
        return datetime.fromtimestamp(moment, self.zone)


@lru_cache(maxsize=4_096)  # on such a day the same slots are computed repeatedly
def _around_change(line: str, zone: ZoneInfo, after: float) -> float | None:
    return Cron(line, zone.key).look_up(after)


def _plain(moment: datetime) -> datetime:
    """Return the local time at a moment."""
    return moment.replace(tzinfo=None, fold=0)


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
    """Return the message for the wrong field, found one at a time among stars."""
    for number, field in enumerate(fields):
        alone = ["*"] * len(fields)
        alone[number] = field
        if not _is_sound(" ".join(alone)):
            return f"'{field[:40]}' is not a valid {_FIELDS[number]}"
    return "no month has such a day"


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo:
    try:
        if _ZONE.match(name) is None:
            raise ValueError
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise ValueError(f"unknown time zone '{name[:64]}'") from None
