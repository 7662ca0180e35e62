"""Formats of durations, counts and moments in the report and the live view."""

from __future__ import annotations


def duration(seconds: float | None) -> str:
    """Format seconds: ``0.4 ms``, ``1.24 s``, ``2 m 05 s``, ``3 h 20 m``, ``2 d 4
    h``."""
    if seconds is None:
        return "not finished"
    if seconds < 0.00005:
        return "0 ms"
    if seconds < 0.0095:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, left = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {left:02} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes:02} m"
    days, hours = divmod(hours, 24)
    return f"{days:,} d {hours} h"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def moment(timestamp: str) -> str:
    """Format a timestamp of the log: ``2026-11-16 03:33:25 UTC``."""
    return f"{timestamp[:10]} {timestamp[11:19]} UTC"
