"""Limits of calls: the text of a rate, and what a task's ``spec`` allows."""

from __future__ import annotations

import re

from noetl.dsl.node import shorten

UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
"""Periods of a rate, in seconds."""

MAX_CALLS = 1_000_000

LIMITS = frozenset({"rate", "slots"})
"""Members of ``spec`` that limit the calls of a task."""

LATENESS_S = 0.1
"""Seconds by which the way of a permitted call may differ from that of another one: the
period of a rate is longer by it, so that the called server sees no more calls than the
limit."""

_RATE = re.compile(r"([0-9]{1,9})\s*/\s*([smhd])\Z")


def parse_rate(text: object) -> float:
    """Return the seconds from one call to the next. Raises ``ValueError`` with a
    message."""
    found = _RATE.match(text) if isinstance(text, str) else None
    if found is None:
        message = f"'{shorten(str(text), 40)}' is not a rate: calls per s, m, h or d"
        raise ValueError(message)
    calls, period = int(found[1]), UNITS[found[2]]
    if not 1 <= calls <= MAX_CALLS:
        raise ValueError(f"a rate has 1 to {MAX_CALLS:,} calls, found {calls:,}")
    return (period + LATENESS_S) / calls
