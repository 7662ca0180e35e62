"""Which slots of a schedule are due, after a second or after an outage."""

from __future__ import annotations

from itertools import takewhile

import msgspec

from noetl.dsl.durations import parse_duration
from noetl.triggers.cron import Cron
from noetl.triggers.definition import Schedule
from noetl.triggers.slots import delay, latest

ON_TIME = 60.0
"""Seconds by which a slot may be late without being one of an outage."""


class Due(msgspec.Struct, frozen=True):
    """``slots`` are to be run now; up to ``cursor`` everything is decided.

    ``next_at`` is when there is something to decide again; None if never.
    """

    slots: tuple[float, ...]
    cursor: float
    next_at: float | None


def decide(name: str, schedule: Schedule, cursor: float, now: float) -> Due:
    """What is due ``now`` of a schedule that is decided up to ``cursor``."""
    cron = Cron(schedule.cron, schedule.zone)
    jitter = parse_duration(schedule.jitter)
    most = 1 if schedule.catch_up == "last" else schedule.most
    # The latest may still wait for their delays: those before them count.
    passed = latest(cron, cursor, now, most + _within(cron, now, jitter))
    ready = list(
        takewhile(lambda slot: slot + delay(name, slot, jitter) <= now, passed)
    )
    if not ready:
        return Due((), cursor, _next_at(name, cron, cursor, jitter))
    slots = ready[-most:]
    if schedule.catch_up == "none":
        slots = [s for s in slots if now - s - delay(name, s, jitter) <= ON_TIME]
    if not schedule.overlap:
        slots = slots[:1]
    decided = ready[-1] if schedule.overlap or not slots else slots[-1]
    return Due(tuple(slots), decided, _next_at(name, cron, decided, jitter))


def first_at(name: str, schedule: Schedule, cursor: float) -> float | None:
    """When a schedule that is decided up to ``cursor`` has something to decide."""
    cron = Cron(schedule.cron, schedule.zone)
    return _next_at(name, cron, cursor, parse_duration(schedule.jitter))


def _within(cron: Cron, now: float, jitter: float) -> int:
    """How many slots may be waiting for their delays."""
    if jitter <= 0:
        return 0
    return len(latest(cron, now - jitter, now, int(jitter // 60) + 2))


def _next_at(name: str, cron: Cron, cursor: float, jitter: float) -> float | None:
    slot = cron.next(cursor)
    return None if slot is None else slot + delay(name, slot, jitter)
