"""The iterations of one loop: where each is in the log, how long it took, how it ended.

A row of an iteration has some twenty bytes, so that all of a long loop stay in memory.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator

import msgspec

from noetl.dsl.node import shorten
from noetl.engine.events import Event
from noetl.engine.runs import path_of
from noetl.engine.times import seconds_of
from noetl.types import JSON

STATUSES = ("idle", "running", "waiting", "done", "failed", "cancelled", "kept")
_IDLE, _RUNNING, _WAITING, _DONE, _FAILED, _CANCELLED, _KEPT = range(len(STATUSES))
MAX_ITERATIONS = 1_000_000
"""Iterations that have rows; further ones are counted only."""
MAX_BUCKETS = 160
MAX_GROUPS = 20
MAX_ERRORS = 2_000
"""Errors of iterations that are kept in memory."""
MESSAGE_CHARS = 200
_DIGITS = re.compile(r"\d+")


class LineError(msgspec.Struct):
    """The error of an iteration."""

    kind: str
    message: str

    @classmethod
    def of(cls, event: Event) -> LineError:
        """Return the error that ``loop.iteration.failed`` records."""
        error = event.payload["error"]
        message = shorten(str(error.get("message", "")), MESSAGE_CHARS)
        return cls(str(error.get("kind", "")), message)


class ErrorGroup(msgspec.Struct):
    """Errors of one kind whose messages differ in numbers only; ``first`` is the index
    of the first one, which has the message."""

    kind: str
    message: str
    count: int
    first: int


class Bucket(msgspec.Struct):
    """A span of time that begins at ``ms``: ends in it, and iterations in flight at its
    end."""

    ms: int
    done: int
    failed: int
    in_flight: int


class Buckets:
    """Begins and ends over time, in spans of one width that grows with the loop."""

    def __init__(self) -> None:
        self.width = 10
        self._counts: list[list[int]] = []

    def add(self, ms: int, column: int) -> None:
        """Count a begin (0), an end (1), a failure (2) or a cancellation (3)."""
        while ms // self.width >= MAX_BUCKETS:
            self.width *= 2
            pairs = [self._counts[n : n + 2] for n in range(0, len(self._counts), 2)]
            self._counts = [
                [sum(column) for column in zip(*pair, strict=True)] for pair in pairs
            ]
        while len(self._counts) <= ms // self.width:
            self._counts.append([0, 0, 0, 0])
        self._counts[ms // self.width][column] += 1

    def __iter__(self) -> Iterator[Bucket]:
        in_flight = 0
        for number, (begun, done, failed, stopped) in enumerate(self._counts):
            in_flight += begun - done - failed - stopped
            yield Bucket(number * self.width, done, failed, in_flight)

    def recent(self) -> tuple[int, int]:
        """Return the ends in the last tenth of the time, and its length in ms."""
        some = self._counts[-max(1, len(self._counts) // 10) :]
        return sum(c[1] + c[2] for c in some), len(some) * self.width


class LoopLines:
    """Fold of the events of one step run with a loop; ``seq`` is the last one."""

    def __init__(self, run: str, before: int) -> None:
        self.run = run
        self.seq = before
        self.total = self.done = self.failed = self.kept = 0
        self.has_ended = False
        self.items: JSON = None
        self.status = bytearray()
        self.first_seq, self.last_seq = array("I"), array("I")
        self.begun, self.ended = array("I"), array("I")
        self.attempts = bytearray()
        self.errors: dict[int, LineError] = {}
        self.groups: dict[tuple[str, str], ErrorGroup] = {}
        self.buckets = Buckets()
        self._in_flight: set[int] = set()
        self._start = 0.0
        self._last = 0
        self._cancelled = False

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def size(self) -> int:
        """Bytes of the rows."""
        return len(self.status) * 18

    def take(self, event: Event) -> None:
        self.seq = event.seq
        if event.name == "workflow.cancelled":
            self._cancelled = True
        elif event.name == "workflow.forked":
            self._restart(event)
        elif event.step_run_id == self.run:
            self._fold(event)

    def _fold(self, event: Event) -> None:
        name, path = event.name, path_of(event.iteration_id)
        if not path:
            if name == "loop.started":
                self._begin(event)
            elif name in ("step.done", "step.failed"):
                self.has_ended = True
            return
        index = path[0]
        if len(path) == 1 and name == "loop.iteration.started":
            self._open(index, event)
        elif len(path) == 1 and name == "loop.iteration.done":
            self._end(index, event, _DONE)
        elif len(path) == 1 and name == "loop.iteration.failed":
            self._fail(index, event)
        elif index < len(self.status) and self.status[index] in (_RUNNING, _WAITING):
            self._note(index, event)

    def _begin(self, event: Event) -> None:
        payload = event.payload
        self.total, self.items = payload["total"], payload["items"]
        self._start = seconds_of(event.timestamp)
        for first, last in payload.get("kept", {}).get("ranges", ()):
            last = min(last, MAX_ITERATIONS - 1)
            self._reach(last)
            for index in range(first, last + 1):
                self.status[index] = _KEPT
        self.kept = payload.get("kept", {}).get("done", 0)

    def _reach(self, index: int) -> None:
        more = index + 1 - len(self.status)
        if more > 0:
            self.status.extend(bytes(more))
            self.attempts.extend(bytes(more))
            for column in (self.first_seq, self.last_seq, self.begun, self.ended):
                column.extend([0] * more)

    def _ms(self, event: Event) -> int:
        self._last = max(0, round((seconds_of(event.timestamp) - self._start) * 1_000))
        return self._last

    def _open(self, index: int, event: Event) -> None:
        ms = self._ms(event)
        self._in_flight.add(index)
        self.buckets.add(ms, 0)
        if index < MAX_ITERATIONS:
            self._reach(index)
            self.status[index], self.attempts[index] = _RUNNING, 1
            self.first_seq[index], self.begun[index] = event.seq, ms

    def _end(self, index: int, event: Event, status: int) -> None:
        ms = self._ms(event)
        self._in_flight.discard(index)
        self.done += status == _DONE
        self.failed += status == _FAILED
        column = {_DONE: 1, _FAILED: 2}.get(status, 3)
        self.buckets.add(ms, column)
        if index < len(self.status):
            self.status[index] = status
            self.last_seq[index], self.ended[index] = event.seq, ms

    def _fail(self, index: int, event: Event) -> None:
        self._end(index, event, _CANCELLED if self._cancelled else _FAILED)
        if self._cancelled:
            return
        error = LineError.of(event)
        kind, message = error.kind, error.message
        if len(self.errors) < MAX_ERRORS:
            self.errors[index] = error
        key = kind, _DIGITS.sub("#", message)
        group = self.groups.get(key)
        if group is None and len(self.groups) >= MAX_GROUPS - 1:
            key, message = ("", ""), "other errors"
            group, kind = self.groups.get(key), ""
        if group is None:
            group = self.groups[key] = ErrorGroup(kind, message, 0, index)
        group.count += 1

    def _note(self, index: int, event: Event) -> None:
        if event.name == "task.started":
            self.status[index] = _RUNNING
            attempt = min(event.attempt or 1, 255)
            self.attempts[index] = max(self.attempts[index], attempt)
        elif event.name == "task.suspended":
            self.status[index] = _WAITING
        elif event.name == "task.resumed":
            self.status[index] = _RUNNING

    def _restart(self, event: Event) -> None:
        """Begin open iterations again, as a fork does."""
        ms = self._ms(event)
        for index in self._in_flight:
            if index < len(self.begun):
                self.begun[index], self.status[index] = ms, _RUNNING

    # -- answers -------------------------------------------------------------------

    def rate(self) -> float | None:
        """Return ends in a second, of late; None before the first."""
        ends, span = self.buckets.recent()
        return round(ends * 1_000 / span, 3) if ends and span else None

    def eta_ms(self) -> int | None:
        """Return how long the rest takes at this rate."""
        rate = self.rate()
        left = self.total - self.kept - self.done - self.failed
        if self.has_ended or rate is None:
            return None
        return round(left / rate * 1_000)

    def span(self, index: int) -> int | None:
        """Return the milliseconds of an iteration, so far or to its end."""
        if self.status[index] in (_RUNNING, _WAITING):
            return self._last - self.begun[index]
        if self.status[index] in (_IDLE, _KEPT):
            return None
        return self.ended[index] - self.begun[index]

    def value(self, index: int) -> tuple[bool, JSON]:
        """Return whether the element is known without its event, and the element."""
        items = self.items
        if isinstance(items, list):
            return index < len(items), items[index] if index < len(items) else None
        if isinstance(items, dict) and items.keys() == {"start", "stop", "step"}:
            return True, items["start"] + index * items["step"]
        return False, None
