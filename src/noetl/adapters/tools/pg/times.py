"""Dates, times and intervals as ISO 8601 texts, also beyond the years of Python."""

from __future__ import annotations

_DAY = 86_400_000_000  # microseconds
_EPOCH = 730_425  # days from 0000-03-01 to 2000-01-01, where PostgreSQL counts from
_ERA = 146_097  # days of 400 years
_NEVER_DAY = {2**31 - 1: "infinity", -(2**31): "-infinity"}
_NEVER = {2**63 - 1: "infinity", -(2**63): "-infinity"}
_NEVER_SPAN = {
    (2**31 - 1, 2**31 - 1, 2**63 - 1): "infinity",
    (-(2**31), -(2**31), -(2**63)): "-infinity",
}


def date_text(parts: tuple[int]) -> str:
    """``2024-02-29``, ``0044-03-15 BC``, ``infinity``."""
    if parts[0] in _NEVER_DAY:
        return _NEVER_DAY[parts[0]]
    day, era = calendar(parts[0])
    return day + era


def timestamp_text(parts: tuple[int]) -> str:
    return moment(parts[0], "")


def timestamptz_text(parts: tuple[int]) -> str:
    """In UTC, whatever the time zone of the session."""
    return moment(parts[0], "+00:00")


def moment(microseconds: int, zone: str) -> str:
    if microseconds in _NEVER:
        return _NEVER[microseconds]
    days, rest = divmod(microseconds, _DAY)
    day, era = calendar(days)
    return f"{day}T{clock(rest)}{zone}{era}"


def time_text(parts: tuple[int]) -> str:
    return clock(parts[0])


def timetz_text(parts: tuple[int, int]) -> str:
    offset = -parts[1]  # PostgreSQL counts seconds west of Greenwich
    hours, seconds = divmod(abs(offset), 3600)
    sign = "-" if offset < 0 else "+"
    zone = f"{sign}{hours:02}:{seconds // 60:02}"
    if seconds % 60:
        zone += f":{seconds % 60:02}"
    return clock(parts[0]) + zone


def interval_text(parts: tuple[int, int, int]) -> str:
    """``P1Y2M3DT4H5M6.7S``: months, days and time are three things, each signed."""
    if parts in _NEVER_SPAN:
        return _NEVER_SPAN[parts]
    months, days, microseconds = parts
    years, months = truncated(months, 12)
    minutes, microseconds = truncated(microseconds, 60_000_000)
    hours, minutes = truncated(minutes, 60)
    day = named((years, "Y"), (months, "M"), (days, "D"))
    time = named((hours, "H"), (minutes, "M"))
    if microseconds:
        whole, rest = truncated(microseconds, 1_000_000)
        sign = "-" if microseconds < 0 else ""
        time += f"{sign}{abs(whole)}{fraction(abs(rest))}S"
    if time:
        time = "T" + time
    return "P" + (day + time or "T0S")


def named(*parts: tuple[int, str]) -> str:
    return "".join(f"{number}{unit}" for number, unit in parts if number)


def truncated(number: int, unit: int) -> tuple[int, int]:
    """Towards zero, so that both parts have the sign of the whole."""
    whole = abs(number) // unit
    if number < 0:
        whole = -whole
    return whole, number - whole * unit


def calendar(days: int) -> tuple[str, str]:
    """The day and its era: years are counted from March, so leap days come last."""
    era, day = divmod(days + _EPOCH, _ERA)
    of_era = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * of_era + of_era // 4 - of_era // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    month = month + 3 if month < 10 else month - 9
    year = era * 400 + of_era + (month <= 2)
    if year > 0:
        return f"{year:04}-{month:02}-{day + 1:02}", ""
    return f"{1 - year:04}-{month:02}-{day + 1:02}", " BC"


def clock(microseconds: int) -> str:
    seconds, rest = divmod(microseconds, 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}{fraction(rest)}"


def fraction(microseconds: int) -> str:
    return f".{microseconds:06}".rstrip("0") if microseconds else ""
