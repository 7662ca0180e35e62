"""Conversion of ``retry`` and ``poll`` to rules of a task."""

from __future__ import annotations

import msgspec

from noetl.dsl.diagnostics import Report
from noetl.dsl.grammar.reader import Reader
from noetl.dsl.grammar.records import (
    ANY,
    DURATION,
    GUARD,
    Field,
    Record,
    Shape,
    integer,
    mapping_of,
    one_of,
)
from noetl.dsl.node import Location
from noetl.dsl.times import parse_duration
from noetl.types import JSON

_MAX_CALLS = 100_000
_MAX_DELAY_S = 7 * 86400.0
_DOUBLINGS = 40
RETRY = Record(
    "legacy_retry",
    "a retry",
    {
        "scope": Field(
            one_of("tool", "chain", "step"),
            "LEG-RETRY-02",
            "The scope that is repeated.",
        ),
        "max_attempts": Field(
            integer(1, _MAX_CALLS), "LEG-RETRY-06", "Maximum of calls (3)."
        ),
        "backoff": Field(mapping_of("legacy_backoff"), "LEG-RETRY-06", "The waits."),
        "on": Field(ANY, "LEG-RETRY-07", "error, exception, status_code, or codes."),
    },
)
BACKOFF = Record(
    "legacy_backoff",
    "a backoff",
    {
        "type": Field(
            one_of("exponential", "linear", "fixed"),
            "LEG-RETRY-06",
            "The growth of the wait.",
        ),
        "delay_seconds": Field(DURATION, "LEG-RETRY-06", "The first wait."),
        "max_delay_seconds": Field(DURATION, "LEG-RETRY-06", "The longest wait."),
        "jitter": Field(Shape(("boolean",)), "LEG-RETRY-06", "Spread the waits."),
    },
)
POLL = Record(
    "legacy_poll",
    "a poll",
    {
        "until": Field(
            GUARD, "LEG-POLL-01", "The condition that ends it.", "LEG-POLL-01"
        ),
        "interval": Field(DURATION, "LEG-POLL-02", "The wait between calls (5s)."),
        "max_attempts": Field(
            integer(1, _MAX_CALLS), "LEG-POLL-02", "Maximum of calls."
        ),
        "deadline": Field(DURATION, "LEG-POLL-02", "Most time for all of them."),
    },
)


class Retry(msgspec.Struct, frozen=True):
    """Retry settings.

    ``delay`` is an expression of the seconds before the next call, in which ``ATTEMPT``
    is the number of calls made; ``on`` selects the errors.
    """

    scope: str = "tool"
    attempts: int = 3
    delay: str | None = None
    on: str | None = None

    def wait(self, attempt: str = "_attempt") -> str | None:
        return None if self.delay is None else self.delay.replace("ATTEMPT", attempt)


class Poll(msgspec.Struct, frozen=True):
    until: Location
    interval: float
    attempts: int | None
    deadline: float | None


DEFAULT = Retry()
"""Default settings of ``on_error: retry``."""


def read_retry(at: Location, report: Report) -> Retry:
    """Read a retry block, or a number of attempts."""
    if type(at.node.value) is int:
        return Retry(attempts=max(at.node.value, 1))
    if not at.node.is_mapping:
        message = "'retry' must be a mapping, or a number of attempts"
        report.error("LEG-RETRY-06", "type", at, message, "retry: {max_attempts: 3}")
        return Retry()
    reader = Reader(report)
    parts = reader.read(at, RETRY)
    backoff = reader.read(parts["backoff"], BACKOFF) if "backoff" in parts else {}
    return Retry(
        parts["scope"].node.value if "scope" in parts else "tool",
        parts["max_attempts"].node.value if "max_attempts" in parts else 3,
        _delay(backoff, report) if backoff else None,
        _condition(parts["on"], report) if "on" in parts else None,
    )


def _delay(parts: dict[str, Location], report: Report) -> str | None:
    """Return the delay of DIR-08 with a bound, spread by the action's id for replay."""
    base = seconds_of(parts.get("delay_seconds"), report, 1.0)
    growth = parts["type"].node.value if "type" in parts else "exponential"
    longest = seconds_of(parts.get("max_delay_seconds"), report, _MAX_DELAY_S)
    delay = f"{base}"
    if growth == "linear":
        delay = f"({base} * ATTEMPT)"
    elif growth == "exponential":
        waits = _doubled(base, longest)
        delay = f"{waits}[([ATTEMPT, {len(waits)}] | min) - 1]"
    delay = f"([{delay}, {longest}] | min)"
    if "jitter" in parts and parts["jitter"].node.value is True:
        digest = "((_action_id ~ '.' ~ ATTEMPT) | sha256)[:4]"
        spread = f"(0.5 + ({digest} | int(base=16)) / 131072)"
        delay = f"({delay} * {spread})"
    return delay


def _doubled(base: float, longest: float) -> list[float]:
    """Return the waits up to the bound, as templates have no powers."""
    waits = [base]
    while 0 < waits[-1] < longest and len(waits) < _DOUBLINGS:
        waits.append(min(waits[-1] * 2, longest))
    return waits


def seconds_of(at: Location | None, report: Report, default: float) -> float:
    if at is None:
        return default
    try:
        return parse_duration(at.node.value)
    except ValueError as error:
        report.error("C-26", "duration", at, str(error), "write seconds, 30s, 5m, 2h")
        return default


_WORDS = {
    "error": "true",
    "exception": "outcome.http.status is none or outcome.http.status is undefined",
    "status_code": "outcome.http.status is defined and outcome.http.status is not none",
}


def _condition(at: Location, report: Report) -> str | None:
    """Return ``on`` as an expression; without it any error counts."""
    given = at.node.items if at.node.is_sequence else [at.node]
    conditions: list[str] = []
    for node in given:
        value: JSON = node.value
        if type(value) is int:
            conditions.append(f"outcome.http.status == {value}")
        elif isinstance(value, str) and value in _WORDS:
            conditions.append(_WORDS[value])
        else:
            message = (
                f"'on' is error, exception, status_code or a code, found '{value}'"
            )
            report.error("LEG-RETRY-07", "choice", at, message)
    if "true" in conditions or not conditions:
        return None
    return " or ".join(f"({condition})" for condition in conditions)


def read_poll(at: Location, report: Report) -> Poll | None:
    if not at.node.is_mapping:
        message = "'poll' must be a mapping"
        hint = 'poll: {until: "{{ … }}", interval: 5s}'
        report.error("LEG-POLL-01", "type", at, message, hint)
        return None
    parts = Reader(report).read(at, POLL)
    if "until" not in parts:
        return None
    limit = parts.get("deadline")
    return Poll(
        parts["until"],
        seconds_of(parts.get("interval"), report, 5.0),
        parts["max_attempts"].node.value if "max_attempts" in parts else None,
        None if limit is None else seconds_of(limit, report, 0.0),
    )
