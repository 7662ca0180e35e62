"""Rates and slots of calls: what a store decides in one transaction (S-78).

A rate has one row, with the time at which its next call is due: calls are ``interval``
seconds apart, so that every period is bounded. Calls that are refused form a line, and
each one is told another time. The line begins again at its front when it would become
too long: refused calls may have been cancelled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from noetl.errors import LeaseLost
from noetl.ports import CallLimit, Lease

SLOT_INTERVAL_S = 0.5
"""Seconds between two questions for a taken slot, of all calls together."""

LINE_S = 30.0
"""Seconds after which a refused call asks again at the latest, unless its rate is
slower."""

SOON_S = 0.05
"""Seconds up to which a refused call is told the next time: it was told this one, and
the call before it came a little late."""

KEEP_S = 60.0
"""Seconds after which a row is removed: it says no more than a new one."""


class Line(NamedTuple):
    """The row of a key: ``due`` is the time of its next call without a burst, ``told``
    the latest time that a refused call was told."""

    due: float = 0.0
    told: float = 0.0


class Answer(NamedTuple):
    """``at`` is when to ask again, 0 for a permitted call. ``changed`` are rows."""

    at: float
    changed: Mapping[str, Line]


def answer(
    limits: Sequence[CallLimit],
    lines: Mapping[str, Line],
    taken: Mapping[str, int],
    now: float,
) -> Answer:
    """Permit a call if all of its limits do; ``taken`` counts the slots of others."""
    told: dict[str, Line] = {}
    permitted: dict[str, Line] = {}
    for limit in limits:
        line = lines.get(limit.key, Line())
        if limit.interval:
            free = line.due - (limit.burst - 1) * limit.interval
            permitted[limit.key] = line._replace(
                due=max(line.due, now) + limit.interval
            )
            if free > now:
                told[limit.key] = _tell(line, free, limit.interval, now)
        elif taken.get(limit.key, 0) >= limit.limit:
            first = now + SLOT_INTERVAL_S
            told[limit.key] = _tell(line, first, SLOT_INTERVAL_S, now)
    if told:
        return Answer(max(line.told for line in told.values()), told)
    return Answer(0.0, permitted)


def _tell(line: Line, first: float, interval: float, now: float) -> Line:
    """Tell a refused call its time: after the others, or ``first``."""
    at = max(first, line.told + interval)
    if first - now < SOON_S or at > max(now + LINE_S, first + 8 * interval):
        at = first
    return line._replace(told=at)


def lost_lease(lease: Lease) -> LeaseLost:
    """Return the error of a question under a lease that its owner has lost."""
    return LeaseLost(f"{lease.owner} does not hold {lease.command_id} any more")
