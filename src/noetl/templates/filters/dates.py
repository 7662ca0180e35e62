"""Filters of dates and times; none of them reads a clock.

A moment is RFC 3339 text or a number of seconds since 1970; text without an offset is
UTC. Results are text or numbers, because values stay JSON.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from noetl.templates import errors
from noetl.templates.evaluation import Evaluation
from noetl.templates.registry import FILTERS
from noetl.templates.undefined import Undefined
from noetl.types import JSON

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_CHARS = 128
_COST = 25  # steps; calendar arithmetic is slow
_NEW_FORMAT = 60  # steps for each character: Python compiles an expression of it
_KEPT_FORMATS = 4  # fewer than Python caches
_DIRECTIVE = re.compile(r"%(.?)", re.S)
_DIRECTIVES = frozenset("YmdHIMSfpzjyGVuaAbB%")


@FILTERS.add("timestamp", example="{{ '2026-01-02T03:04:05Z' | timestamp }}")
def timestamp(run: Evaluation, value: JSON) -> float:
    """Seconds since 1970 of a moment."""
    run.charge(_COST)
    return (_moment(value) - _EPOCH).total_seconds()


@FILTERS.add("datetime", example="{{ 1767322945 | datetime('%Y-%m-%d') }}")
def to_datetime(run: Evaluation, value: JSON, format: str | None = None) -> str:
    """A moment as RFC 3339 text, or in a strftime format."""
    run.charge(_COST)
    moment = _moment(value)
    if format is None:
        return _rfc3339(moment)
    return moment.strftime(_check_format("datetime", format))


@FILTERS.add(
    "parse_datetime", example="{{ '02.01.2026' | parse_datetime('%d.%m.%Y') }}"
)
def parse_datetime(run: Evaluation, value: JSON, format: str) -> str:
    """Text in a strptime format as RFC 3339 text."""
    text, format = _expect_text(value), _check_format("parse_datetime", format)
    run.charge(4 * _COST)
    _charge_format(run, format)
    try:
        # Naive until the last line adds UTC.
        moment = datetime.strptime(text, format)  # noqa: DTZ007
    except (ValueError, re.error):
        raise errors.wrong(
            "parse_datetime: the text does not have that format"
        ) from None
    return _rfc3339(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


@FILTERS.add("date_add", example="{{ '2026-01-31T00:00:00Z' | date_add(days=1) }}")
def date_add(
    run: Evaluation,
    value: JSON,
    days: float = 0,
    hours: float = 0,
    minutes: float = 0,
    seconds: float = 0,
) -> str:
    """A moment shifted by the given time (negative: earlier), as RFC 3339 text."""
    run.charge(_COST)
    try:
        later = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        return _rfc3339(_moment(value) + later)
    except OverflowError:
        raise errors.wrong(
            "date_add: the result is not in the years 1 to 9999"
        ) from None


def _moment(value: JSON) -> datetime:
    if isinstance(value, Undefined):
        raise value.error()
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(_expect_text(value))
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _EPOCH + timedelta(seconds=value)
    except (ValueError, OverflowError):
        pass
    raise errors.wrong(
        "expected a moment: RFC 3339 text such as 2026-01-02T03:04:05Z, or seconds "
        f"since 1970; found {errors.kind_of(value)}",
        "read other formats with parse_datetime",
    )


def _expect_text(value: JSON) -> str:
    if isinstance(value, Undefined):
        raise value.error()
    if not isinstance(value, str) or len(value) > _MAX_CHARS:
        raise errors.wrong(f"expected text of at most {_MAX_CHARS} characters")
    return value


def _charge_format(run: Evaluation, format: str) -> None:
    """Charge for a format that this evaluation did not use recently.

    Python's own cache does not count: the same template costs the same (I-09).
    """
    if format not in run.formats:
        run.charge(4 * _NEW_FORMAT + _NEW_FORMAT * len(format))
        run.formats = [*run.formats[1 - _KEPT_FORMATS :], format]


def _check_format(name: str, format: str) -> str:
    if not isinstance(format, str) or len(format) > _MAX_CHARS:
        raise errors.wrong(
            f"{name}: the format is text of at most {_MAX_CHARS} characters"
        )
    for directive in _DIRECTIVE.findall(format):
        if directive not in _DIRECTIVES:
            known = " ".join(f"%{d}" for d in sorted(_DIRECTIVES))
            raise errors.wrong(f"{name}: %{directive} is not one of {known}")
    return format


def _rfc3339(moment: datetime) -> str:
    text = moment.isoformat()
    return f"{text[:-6]}Z" if text.endswith("+00:00") else text
