"""Retention: the time from which a finished execution may be removed."""

from __future__ import annotations

from math import inf

from noetl.dsl.times import parse_duration
from noetl.engine.times import seconds_of
from noetl.types import JSON


def removable_at(
    finished_at: str | None, own: JSON, default: float, *, at_least: bool = False
) -> float:
    """Return when an execution may be removed, in seconds since the epoch: never
    before its end.

    ``own`` is the duration that its playbook has for itself, ``default`` that of the
    server; with ``at_least`` the longer of the two holds.
    """
    if finished_at is None:
        return inf
    keep = own_seconds(own)
    if keep is None or (at_least and keep < default):
        keep = default
    return seconds_of(finished_at) + keep


def own_seconds(own: JSON) -> float | None:
    """Return the seconds of a playbook's own duration; None if it has none that this
    version understands."""
    if own is None:
        return None
    try:
        return parse_duration(own)
    except ValueError:
        return None
