"""Slots of a schedule: their names, those of a range, the latest of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice

from noetl.triggers.cron import Cron
from noetl.types import JSON

HOUR = 3600.0


def slot_name(moment: float) -> str:
    """What a slot is called in keys and messages: its time in UTC."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def after(cron: Cron, moment: float, until: float) -> Iterator[float]:
    """Slots later than ``moment`` and not later than ``until``, in order."""
    found = cron.next(moment)
    while found is not None and found <= until:
        yield found
        found = cron.next(found)


def latest(cron: Cron, since: float, until: float, most: int) -> list[float]:
    """The last ``most`` slots later than ``since`` and not later than ``until``.

    A year of minutes is not walked through for the last hundred: the look back doubles
    until they are found.
    """
    reach = HOUR
    while True:
        start = max(since, until - reach)
        found = list(after(cron, start, until))
        if len(found) >= most or start == since:
            return found[-most:]
        reach *= 2


def first(cron: Cron, since: float, until: float, most: int) -> list[float]:
    """The first ``most`` slots of ``since`` (included) up to ``until`` (excluded)."""
    found = islice(after(cron, since - 1.0, until), most + 1)
    return [slot for slot in found if since <= slot < until][:most]


def delay(name: str, slot: float, jitter: float) -> float:
    """How long this slot of this trigger waits: the same wherever it is asked."""
    if jitter <= 0:
        return 0.0
    digest = sha256(f"{name}\0{slot_name(slot)}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64 * jitter


def slot_scope(cron: Cron, slot: float) -> dict[str, JSON]:
    """What templates read as ``slot``."""
    local = cron.local(slot)
    return {
        "time": slot_name(slot),
        "local": local.isoformat(timespec="seconds"),
        "date": local.strftime("%Y-%m-%d"),
    }
