"""Backfills: missing slots of a range, and the next ones to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

import msgspec

from noetl.triggers.cron import Cron
from noetl.triggers.slots import first

State = Literal["running", "stopped", "finished"]

MAX_SLOTS = 10_000
"""Maximum of slots of one backfill."""
MAX_AT_ONCE = 50
LOOKUP_BATCH = 100
"""Slots that are looked up in the log at a time."""


class Flight(msgspec.Struct, frozen=True):
    """Slot that is running; without an execution it is about to start. ``again`` is its
    execution that failed, if it has one."""

    slot: float
    execution_id: str | None = None
    again: str | None = None


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a backfill: every slot before ``cursor`` is decided.

    ``present`` slots had an execution before; ``completed`` and ``failed`` count the
    executions that the backfill started. ``failed_too`` is set if slots whose latest
    execution failed run again.
    """

    cursor: float
    flights: tuple[Flight, ...] = ()
    present: int = 0
    started: int = 0
    completed: int = 0
    failed: int = 0
    failed_too: bool = False


def land(progress: Progress, endings: Mapping[str, str]) -> Progress:
    """Remove the executions that have finished, and count them by status."""
    left = tuple(f for f in progress.flights if f.execution_id not in endings)
    statuses = [
        endings[f.execution_id]
        for f in progress.flights
        if f.execution_id is not None and f.execution_id in endings
    ]
    completed = statuses.count("completed")
    return msgspec.structs.replace(
        progress,
        flights=left,
        completed=progress.completed + completed,
        failed=progress.failed + len(statuses) - completed,
    )


def candidates(cron: Cron, progress: Progress, until: float) -> list[float]:
    """Return the slots to look up next."""
    return first(cron, progress.cursor, until, LOOKUP_BATCH)


def take(
    progress: Progress,
    slots: Sequence[float],
    present: frozenset[float],
    at_once: int,
    until: float,
    again: Mapping[float, str] = {},
) -> Progress:
    """Decide on ``slots``, the next ones in order.

    Slots that are present are passed over; missing ones, and those of ``again``, which
    failed, are taken while there is room.
    """
    flights, there, cursor = list(progress.flights), 0, progress.cursor
    started = progress.started
    for slot in slots:
        if slot in present:
            there += 1
        elif len(flights) < at_once:
            flights.append(Flight(slot, again=again.get(slot)))
            started += 1
        else:
            break
        cursor = slot + 1.0
    else:
        if len(slots) < LOOKUP_BATCH:
            cursor = until
    return msgspec.structs.replace(
        progress,
        cursor=cursor,
        flights=tuple(flights),
        present=progress.present + there,
        started=started,
    )


def is_over(progress: Progress, until: float) -> bool:
    return progress.cursor >= until and not progress.flights


def moment_in(cron: Cron, text: str) -> float:
    """Parse a day or a time; without an offset it is in the schedule's zone.

    Raises ``ValueError`` with a message.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        message = f"'{text[:40]}' is not a time: write 2026-01-31, or 2026-01-31T06:00"
        raise ValueError(message) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=cron.zone)
    try:
        return found.timestamp()
    except (OverflowError, OSError):
        raise ValueError(f"'{text[:40]}' is out of range") from None
