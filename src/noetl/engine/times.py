"""Times: seconds since the epoch for arithmetic, RFC 3339 for the log (S-44)."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

NEVER = 253_402_300_000.0
"""The end of the year 9999: a timer at this time never fires."""


def rfc3339(seconds: float) -> str:
    """Format as UTC with microseconds and ``Z``."""
    micros = round(seconds * 1_000_000)
    whole, part = divmod(micros, 1_000_000)
    return f"{_second(whole)}.{part:06d}Z"


@lru_cache(maxsize=16)  # consecutive times share a second
def _second(whole: int) -> str:
    return datetime.fromtimestamp(whole, UTC).isoformat()[:-6]


def seconds_of(text: str) -> float:
    """Parse a time of the log or of an author. Raises ``ValueError``.

    A time without a zone is in UTC.
    """
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
