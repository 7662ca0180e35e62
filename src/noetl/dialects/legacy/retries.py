"""``retry`` and ``poll`` as rules of a task."""

from __future__ import annotations

import msgspec

from noetl.dsl.diagnostics import Report
from noetl.dsl.durations import parse_duration
from noetl.dsl.grammar.reader import Reader
from noetl.dsl.grammar.shape import (
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
from noetl.dsl.place import Place
from noetl.types import JSON

_MOST = 100_000
_LONGEST = 7 * 86400.0
_DOUBLINGS = 40
RETRY = Record(
    "legacy_retry",
    "a retry",
    {
        "scope": Field(
            one_of("tool", "chain", "step"), "LEG-RETRY-02", "What is repeated."
        ),
        "max_attempts": Field(integer(1, _MOST), "LEG-RETRY-06", "Most calls (3)."),
        "backoff": Field(mapping_of("legacy_backoff"), "LEG-RETRY-06", "The waits."),
        "on": Field(ANY, "LEG-RETRY-07", "error, exception, status_code, or codes."),
    },
)
BACKOFF = Record(
    "legacy_backoff",
    "a backoff",
    {
        "type": Field(
            one_of("exponential", "linear", "fixed"), "LEG-RETRY-06", "How it grows."
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
        "until": Field(GUARD, "LEG-POLL-01", "What ends it.", "LEG-POLL-01"),
        "interval": Field(DURATION, "LEG-POLL-02", "The wait between calls (5s)."),
        "max_attempts": Field(integer(1, _MOST), "LEG-POLL-02", "Most calls."),
        "deadline": Field(DURATION, "LEG-POLL-02", "Most time for all of them."),
    },
)


class Retry(msgspec.Struct, frozen=True):
    """``delay`` is an expression of the seconds before the next call, in which
    ``ATTEMPT`` stands for the number of calls made; ``on`` tells which errors count."""

    scope: str = "tool"
    attempts: int = 3
    delay: str | None = None
    on: str | None = None

    def wait(self, attempt: str = "_attempt") -> str | None:
        return None if self.delay is None else self.delay.replace("ATTEMPT", attempt)


class Poll(msgspec.Struct, frozen=True):
    until: Place
    interval: float
    attempts: int | None
    deadline: float | None


DEFAULT = Retry()
"""What ``on_error: retry`` means where nothing says more."""


def read_retry(at: Place, report: Report) -> Retry:
    """A retry block, or the number of attempts that stands for one."""
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


def _delay(parts: dict[str, Place], report: Report) -> str | None:
    """DIR-08 with a bound, spread by the action's own id so that replay agrees."""
    base = seconds_of(parts.get("delay_seconds"), report, 1.0)
    growth = parts["type"].node.value if "type" in parts else "exponential"
    longest = seconds_of(parts.get("max_delay_seconds"), report, _LONGEST)
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
    """The waits until they grow no more; templates know no powers."""
    waits = [base]
    while 0 < waits[-1] < longest and len(waits) < _DOUBLINGS:
        waits.append(min(waits[-1] * 2, longest))
    return waits


def seconds_of(at: Place | None, report: Report, default: float) -> float:
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


def _condition(at: Place, report: Report) -> str | None:
    """``on`` as an expression; any error counts without it."""
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


def read_poll(at: Place, report: Report) -> Poll | None:
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
