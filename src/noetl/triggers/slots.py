"""Slots of a schedule: names, ranges, the latest ones."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice, takewhile

import msgspec

from noetl.dsl.times import parse_duration
from noetl.triggers.cron import Cron
from noetl.triggers.definition import MAX_CATCH_UP, Schedule
from noetl.types import JSON

HOUR = 3600.0


def slot_name(moment: float) -> str:
    """Return the name of a slot in keys and messages: its time in UTC."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def after(cron: Cron, moment: float, until: float) -> Iterator[float]:
    """Yield slots later than ``moment`` and not later than ``until``, in order."""
    found = cron.next(moment)
    while found is not None and found <= until:
        yield found
        found = cron.next(found)


def latest(cron: Cron, since: float, until: float, most: int) -> list[float]:
    """Return the last ``most`` slots later than ``since`` and not later than ``until``.

    The search goes back by doubling ranges, so that a year of minutes is not walked for
    the last hundred slots.
    """
    reach = HOUR
    while True:
        start = max(since, until - reach)
        found = list(after(cron, start, until))
        if len(found) >= most or start == since:
            return found[-most:]
        reach *= 2


def first(cron: Cron, since: float, until: float, most: int) -> list[float]:
    """Return the first ``most`` slots of ``since`` (included) up to ``until``
    (excluded)."""
    found = islice(after(cron, since - 1.0, until), most + 1)
    return [slot for slot in found if since <= slot < until][:most]


def delay(name: str, slot: float, jitter: float) -> float:
    """Return the delay of this slot of this trigger: the same on every server."""
    if jitter <= 0:
        return 0.0
    digest = sha256(f"{name}\0{slot_name(slot)}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64 * jitter


def slot_scope(cron: Cron, slot: float) -> dict[str, JSON]:
    """Return the values that templates read as ``slot``."""
    local = cron.local(slot)
    return {
        "time": slot_name(slot),
        "local": local.isoformat(timespec="seconds"),
        "date": local.strftime("%Y-%m-%d"),
    }


ON_TIME = 60.0
"""Seconds by which a slot may be late without counting as an outage."""


class Due(msgspec.Struct, frozen=True):
    """Decision: ``slots`` run now; every slot up to ``cursor`` is decided.

    ``next_at`` is the moment of the next decision; None if there is none.
    """

    slots: tuple[float, ...]
    cursor: float
    next_at: float | None


def decide(name: str, schedule: Schedule, cursor: float, now: float) -> Due:
    """Return the slots that are due ``now`` of a schedule decided up to ``cursor``."""
    cron = Cron(schedule.cron, schedule.zone)
    jitter = parse_duration(schedule.jitter)
    most = 1 if schedule.catch_up == "last" else schedule.most
    # The latest slots may still wait for their delays: those before them count.
    passed = latest(cron, cursor, now, most + _within(cron, now, jitter))
    ready = list(
        takewhile(lambda slot: slot + delay(name, slot, jitter) <= now, passed)
    )
    if not ready:
        return Due((), cursor, _next_at(name, cron, cursor, jitter))
    slots = ready[-most:]
    if schedule.catch_up == "none":
        slots = [s for s in slots if lateness(name, schedule, s, now) <= ON_TIME]
    if not schedule.overlap:
        slots = slots[:1]
    decided = ready[-1] if schedule.overlap or not slots else slots[-1]
    return Due(tuple(slots), decided, _next_at(name, cron, decided, jitter))


def left_out(schedule: Schedule, cursor: float, due: Due) -> tuple[float, ...]:
    """Return the slots that this decision does not run, at most the latest ones of
    ``MAX_CATCH_UP``."""
    cron = Cron(schedule.cron, schedule.zone)
    passed = latest(cron, cursor, due.cursor, MAX_CATCH_UP)
    return tuple(slot for slot in passed if slot not in due.slots)


def lateness(name: str, schedule: Schedule, slot: float, now: float) -> float:
    """Return the seconds by which a slot is later than its time and its delay."""
    return now - slot - delay(name, slot, parse_duration(schedule.jitter))


def first_at(name: str, schedule: Schedule, cursor: float) -> float | None:
    """Return the moment of the first decision after ``cursor``."""
    cron = Cron(schedule.cron, schedule.zone)
    return _next_at(name, cron, cursor, parse_duration(schedule.jitter))


def _within(cron: Cron, now: float, jitter: float) -> int:
    """Return how many slots may be waiting for their delays."""
    if jitter <= 0:
        return 0
    return len(latest(cron, now - jitter, now, int(jitter // 60) + 2))


def _next_at(name: str, cron: Cron, cursor: float, jitter: float) -> float | None:
    slot = cron.next(cursor)
    return None if slot is None else slot + delay(name, slot, jitter)
