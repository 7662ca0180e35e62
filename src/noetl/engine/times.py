"""Moments: seconds since the epoch for reckoning, RFC 3339 for the log (S-44)."""

from __future__ import annotations

from datetime import UTC, datetime

NEVER = 253_402_300_000.0
"""The end of the year 9999: what is due then is waited for by something else."""


def rfc3339(seconds: float) -> str:
    """UTC with microseconds and ``Z``."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="microseconds")[:-6] + "Z"


def seconds_of(text: str) -> float:
    """What ``rfc3339`` wrote, or an author: raises ``ValueError``.

    A time without a zone is in UTC.
    """
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
